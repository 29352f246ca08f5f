package service

import (
	"log/slog"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// The lines of the log about events. Each has the attribute event, which names the
// kind of event and never changes; docs/logs.md lists all of them.

// logGroupEvent writes the line about an event of a group, which log names.
func logGroupEvent(log *slog.Logger, e group.Event) {
	switch e := e.(type) {
	case group.MemberJoined:
		log.Info("member joined", "event", "member_joined", "member", e.Member, "incarnation", e.Incarnation, "epoch", int64(e.Epoch), "replaced", e.Replaced)
	case group.MemberLeaving:
		log.Info("member leaving", "event", "member_leaving", "member", e.Member, "incarnation", e.Incarnation)
	case group.MemberDraining:
		log.Info("member draining", "event", "member_draining", "member", e.Member, "incarnation", e.Incarnation, "undone", e.Undone)
	case group.MemberEnded:
		log.Info("member ended", "event", endEvents[e.Reason], "member", e.Member, "incarnation", e.Incarnation, "reason", string(e.Reason), "detail", e.Detail)
	case group.TargetChanged:
		log.Info("target changed", "event", "rebalance", "group_epoch", int64(e.GroupEpoch), "members", e.Members, "moves", e.Moves)
	case group.CorrectionOpened:
		log.Warn("the store went backwards, the group is corrected", "event", "correction_opened", "reason", e.Reason, "jump", int64(e.Jump))
	case group.CorrectionEnded:
		log.Info("the correction has ended", "event", "correction_ended", "jump", int64(e.Jump))
	case group.ShardsAdopted:
		log.Info("shards adopted", "event", "shards_adopted", "written", e.ShardCount, "read", e.ReadCount, "stream_version", e.StreamVersion)
	case group.TimingsChanged:
		log.Info("timings changed", "event", "timings_changed", "lease", e.Now.Lease, "heartbeat_interval", e.Now.HeartbeatInterval, "rebalance_timeout", e.Now.RebalanceTimeout)
	case group.ShardGranted:
		log.Debug("shard granted", "event", "shard_granted", "shard", int(e.Shard), "member", e.Member, "epoch", int64(e.Epoch))
	case group.ShardRevoked:
		log.Debug("shard revoked", "event", "shard_revoked", "shard", int(e.Shard), "member", e.Member, "epoch", int64(e.Epoch))
	case group.ShardReleased:
		log.Debug("shard released", "event", "shard_released", "shard", int(e.Shard), "member", e.Member, "cause", string(e.Cause))
	case group.StampsLost:
		log.Warn("the store has lost the proof that members live: their leases count anew; check what removes keys or rows", "event", "stamps_lost", "lives", e.Lives)
	case group.RowsIgnored:
		log.Debug("report rows ignored", "event", "rows_ignored", "member", e.Member, "rows", e.Rows)
	}
}

// endEvents name the end of a member by its reason.
var endEvents = map[group.EndReason]string{
	group.EndLeft: "member_left", group.EndExpired: "member_expired", group.EndFenced: "member_fenced",
	group.EndReplaced: "member_replaced", group.EndStopped: "member_stopped",
}

// logStreamEvent writes the line about an event of a stream, which log names.
func logStreamEvent(log *slog.Logger, e stream.Event) {
	switch e := e.(type) {
	case stream.Created:
		log.Info("stream created", "event", "stream_created", "shards", e.ShardCount)
	case stream.Deleting:
		log.Info("stream deleting", "event", "stream_deleting", "data", e.DeleteData)
	case stream.Resharding:
		log.Info("resharding", "event", "resharding", "id", e.ID, "from", e.From, "to", e.To, "state", string(e.State))
	case stream.ShardsRetired:
		log.Info("shards retired", "event", "shards_retired", "shards", len(e.Shards), "first", e.Shards[0])
	case stream.StraysFound:
		log.Warn("shards were found that were created late; they are drained and retired", "event", "strays_found", "shards", len(e.Shards), "first", e.Shards[0])
	case stream.WritesLost:
		log.Warn("the last changes of the stream are lost; its groups are told of its shards again", "event", "stream_writes_lost", "version", e.Version, "seen", e.Seen)
	case stream.GroupIgnored:
		log.Warn("drains do not wait for a consumer group any more", "event", "group_ignored", "group", e.Group)
	case stream.ShardsGivenUp:
		log.Warn("shards are given up with the records that they hold", "event", "shards_given_up", "shards", len(e.Shards), "first", e.Shards[0])
	case stream.GroupChanged:
		phase := string(e.Phase)
		if phase == "" {
			phase = "deleted"
		}
		log.Info("group changed", "event", "group_changed", "group", e.Group, "phase", phase)
	}
}
