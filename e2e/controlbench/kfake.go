package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topic = "t"

// peerCallers are the numbers of callers that kfake is tried with. The best counts.
var peerCallers = []int{1, 16, 64}

// kafka is franz-go's broker in memory, which speaks the protocol that ours is
// modelled on and keeps nothing, with a settled group of as many members and
// partitions; it is reached through its client, in this process.
type kafka struct {
	cluster *kfake.Cluster
	client  *kgo.Client
	broker  *kgo.Broker
	members []kafkaMember
}

func startKafka(ctx context.Context, b *bench) (_ *kafka, err error) {
	f := &kafka{members: make([]kafkaMember, b.members)}
	defer func() {
		if err != nil {
			f.close()
			err = fmt.Errorf("kfake: %w", err)
		}
	}()
	f.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(b.shards), topic),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "5000"}))
	if err != nil {
		return nil, err
	}
	if f.client, err = kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...)); err != nil {
		return nil, err
	}
	f.broker = f.client.Broker(0)
	if err := f.settle(ctx, b.shards); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *kafka) close() {
	if f.client != nil {
		f.client.Close()
	}
	if f.cluster != nil {
		f.cluster.Close()
	}
}

type kafkaMember struct {
	id    string
	epoch int32
	// owned are partitions of the one topic, nil before the first assignment.
	owned []int32
	topic [16]byte
}

// settle lets all members join and acknowledge until every partition is owned.
func (f *kafka) settle(ctx context.Context, partitions int) error {
	const maxRounds = 50
	for i := range f.members {
		f.members[i].id = fmt.Sprintf("member-%05d-kfake-load", i)
	}
	for range maxRounds {
		owned, news := 0, false
		for i := range f.members {
			m := &f.members[i]
			r, err := f.beat(ctx, m, true)
			if err != nil {
				return err
			}
			news = news || r.MemberEpoch != m.epoch
			m.epoch = r.MemberEpoch
			if r.Assignment != nil {
				var now []int32
				for _, t := range r.Assignment.Topics {
					m.topic = t.TopicID
					now = append(now, t.Partitions...)
				}
				news = news || !slices.Equal(now, m.owned)
				m.owned = now
			}
			owned += len(m.owned)
		}
		if owned == partitions && !news {
			return nil
		}
	}
	return errors.New("the group does not settle")
}

// beat sends one heartbeat: whole, with what the member subscribes to and owns, or
// a keepalive without both.
func (f *kafka) beat(ctx context.Context, m *kafkaMember, whole bool) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.MemberEpoch = group, m.id, m.epoch
	if whole {
		q.RebalanceTimeoutMillis = 60_000
		q.SubscribedTopicNames = []string{topic}
		q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(m.owned) > 0 {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = m.topic, m.owned
			q.Topics = append(q.Topics, t)
		}
	}
	answer, err := f.broker.Request(ctx, q)
	if err != nil {
		return nil, err
	}
	r, ok := answer.(*kmsg.ConsumerGroupHeartbeatResponse)
	if !ok {
		return nil, fmt.Errorf("a heartbeat is answered with %T", answer)
	}
	return r, kerr.ErrorForCode(r.ErrorCode)
}

// keepalives returns how many are answered in a second, by the best number of
// callers.
func (f *kafka) keepalives(ctx context.Context, sample time.Duration) (perSecond float64, err error) {
	for _, callers := range peerCallers {
		n, err := f.withCallers(ctx, sample/time.Duration(len(peerCallers)), callers)
		if err != nil {
			return 0, fmt.Errorf("kfake: %w", err)
		}
		perSecond = max(perSecond, n)
	}
	return perSecond, nil
}

func (f *kafka) withCallers(ctx context.Context, sample time.Duration, callers int) (float64, error) {
	var answered atomic.Int64
	errs := make([]error, callers)
	until := time.Now().Add(sample)
	var wait sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		wait.Go(func() {
			for i := caller; time.Now().Before(until); i += callers {
				if _, err := f.beat(ctx, &f.members[i%len(f.members)], false); err != nil {
					errs[caller] = err
					return
				}
				answered.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(answered.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
