package command

import "context"

// SlotRange is a run of slots that one master of a Cluster holds.
type SlotRange struct {
	First, Last      int
	Endpoint, NodeID string
}

// SlotRanges returns who holds which slots, none where there is no Cluster.
func (s *Streams) SlotRanges(ctx context.Context) ([]SlotRange, error) {
	if s.nodes.cluster == nil {
		return nil, nil
	}
	//nolint:staticcheck // The library asks for the slots as well, so that users are allowed to.
	slots, err := s.nodes.cluster.ClusterSlots(ctx).Result()
	if err != nil {
		return nil, failed(ctx, err)
	}
	ranges := make([]SlotRange, 0, len(slots))
	for _, r := range slots {
		if len(r.Nodes) > 0 { // the first is the master
			ranges = append(ranges, SlotRange{First: r.Start, Last: r.End, Endpoint: r.Nodes[0].Addr, NodeID: r.Nodes[0].ID})
		}
	}
	return ranges, nil
}
