package service

import (
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// publish tells logs and subscribers what happened to a group.
func (c *Coordinator) publish(key port.GroupKey, events []group.Event) {
	if len(events) == 0 {
		return
	}
	log := c.cfg.Logger.With("stream", key.Stream, "group", key.Group)
	for _, e := range events {
		switch e := e.(type) {
		case group.MemberJoined:
			log.Info("member joined", "member", e.Member, "incarnation", e.Incarnation, "epoch", int64(e.Epoch), "replaced", e.Replaced)
		case group.MemberLeaving:
			log.Info("member leaving", "member", e.Member, "incarnation", e.Incarnation)
		case group.MemberDraining:
			log.Info("member draining", "member", e.Member, "incarnation", e.Incarnation, "undone", e.Undone)
		case group.MemberEnded:
			log.Info("member ended", "member", e.Member, "incarnation", e.Incarnation, "reason", string(e.Reason), "detail", e.Detail)
		case group.TargetChanged:
			log.Info("target changed", "epoch", int64(e.GroupEpoch), "members", e.Members, "moves", e.Moves)
		case group.CorrectionOpened:
			log.Warn("the store went backwards, the group is corrected", "reason", e.Reason, "jump", int64(e.Jump))
		case group.CorrectionEnded:
			log.Info("the correction has ended", "jump", int64(e.Jump))
		case group.ShardsAdopted:
			log.Info("shards adopted", "written", e.ShardCount, "read", e.ReadCount, "stream_version", e.StreamVersion)
		case group.TimingsChanged:
			log.Info("timings changed", "lease", e.Now.Lease, "heartbeat_interval", e.Now.HeartbeatInterval, "rebalance_timeout", e.Now.RebalanceTimeout)
		case group.ShardGranted:
			log.Debug("shard granted", "shard", int(e.Shard), "member", e.Member, "epoch", int64(e.Epoch))
		case group.ShardRevoked:
			log.Debug("shard revoked", "shard", int(e.Shard), "member", e.Member, "epoch", int64(e.Epoch))
		case group.ShardReleased:
			log.Debug("shard released", "shard", int(e.Shard), "member", e.Member, "cause", string(e.Cause))
		case group.RowsIgnored:
			log.Debug("report rows ignored", "member", e.Member, "rows", e.Rows)
		}
	}
	if c.cfg.OnGroupEvents != nil {
		c.cfg.OnGroupEvents(key, events)
	}
}

func (c *Coordinator) publishStream(prefix string, events []stream.Event) {
	if len(events) == 0 {
		return
	}
	for _, e := range events {
		switch e := e.(type) {
		case stream.Created:
			c.cfg.Logger.Info("stream created", "stream", e.Prefix, "shards", e.ShardCount)
		case stream.Deleting:
			c.cfg.Logger.Info("stream deleting", "stream", e.Prefix, "data", e.DeleteData)
		case stream.Resharding:
			c.cfg.Logger.Info("resharding", "stream", e.Prefix, "id", e.ID, "from", e.From, "to", e.To, "state", string(e.State))
		case stream.ShardsRetired:
			c.cfg.Logger.Info("shards retired", "stream", e.Prefix, "shards", len(e.Shards), "first", e.Shards[0])
		case stream.StraysFound:
			c.cfg.Logger.Warn("shards were found that were created late; they are drained and retired", "stream", e.Prefix, "shards", len(e.Shards), "first", e.Shards[0])
		case stream.GroupIgnored:
			c.cfg.Logger.Warn("drains do not wait for a consumer group any more", "stream", e.Prefix, "group", e.Group)
		case stream.ShardsGivenUp:
			c.cfg.Logger.Warn("shards are given up with the records that they hold", "stream", e.Prefix, "shards", len(e.Shards), "first", e.Shards[0])
		case stream.GroupChanged:
			phase := string(e.Phase)
			if phase == "" {
				phase = "deleted"
			}
			c.cfg.Logger.Info("group changed", "stream", e.Prefix, "group", e.Group, "phase", phase)
		}
	}
	if c.cfg.OnStreamEvents != nil {
		c.cfg.OnStreamEvents(prefix, events)
	}
}
