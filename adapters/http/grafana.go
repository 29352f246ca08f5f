package httpapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// grafanaRows answers with rows that a data source for JSON shows as a table.
func grafanaRows[T any](rows []T) reply {
	if rows == nil {
		rows = []T{}
	}
	return ok(rows)
}

func (a *api) grafanaGroups(c *gin.Context) (reply, error) {
	all, err := a.coordinator.Overviews(c.Request.Context(), "", "")
	if err != nil {
		return reply{}, err
	}
	rows := make([]grafanaGroup, len(all))
	for i := range all {
		rows[i] = groupRow(&all[i])
	}
	return grafanaRows(rows), nil
}

// groupNames lists all groups by stream and name, of one stream where that is not
// empty.
func (a *api) groupNames(ctx context.Context, prefix string) ([]protocol.Group, error) {
	list, err := a.coordinator.Groups(ctx)
	if err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc(list.Groups, func(g protocol.Group) bool { return prefix != "" && g.StreamPrefix != prefix })
	slices.SortFunc(groups, func(a, b protocol.Group) int {
		return cmp.Or(strings.Compare(a.StreamPrefix, b.StreamPrefix), strings.Compare(a.ConsumerGroup, b.ConsumerGroup))
	})
	return groups, nil
}

func (a *api) grafanaStreamOptions(c *gin.Context) (reply, error) {
	groups, err := a.groupNames(c.Request.Context(), "")
	if err != nil {
		return reply{}, err
	}
	var rows []grafanaOption
	for i, g := range groups {
		if i == 0 || groups[i-1].StreamPrefix != g.StreamPrefix {
			rows = append(rows, grafanaOption{g.StreamPrefix, g.StreamPrefix})
		}
	}
	return grafanaRows(rows), nil
}

func (a *api) grafanaGroupOptions(c *gin.Context) (reply, error) {
	q, err := queryOf(c)
	if err != nil {
		return reply{}, err
	}
	groups, err := a.groupNames(c.Request.Context(), q.text("streamPrefix", ""))
	if err != nil {
		return reply{}, err
	}
	var rows []grafanaOption
	for _, g := range groups {
		rows = append(rows, grafanaOption{g.StreamPrefix + " / " + g.ConsumerGroup, g.ConsumerGroup})
	}
	return grafanaRows(rows), nil
}

func (a *api) grafanaShardOptions(c *gin.Context) (reply, error) {
	prefix, group, err := namedGroup(c)
	if err != nil || prefix == "" || group == "" {
		return grafanaRows[grafanaOption](nil), err
	}
	g, err := a.coordinator.Group(c.Request.Context(), prefix, group)
	if err != nil {
		return reply{}, err
	}
	var rows []grafanaOption
	for shard := range g.ShardCount {
		rows = append(rows, grafanaOption{shardLabel(shard), decimal(shard)})
	}
	return grafanaRows(rows), nil
}

// namedGroup reads the group that the query names.
func namedGroup(c *gin.Context) (prefix, group string, err error) {
	q, err := queryOf(c)
	if err != nil {
		return "", "", err
	}
	return q.group()
}

func (a *api) grafanaMembers(c *gin.Context) (reply, error) {
	prefix, group, err := namedGroup(c)
	if err != nil || prefix == "" || group == "" {
		return grafanaRows[grafanaMember](nil), err
	}
	list, err := a.coordinator.Members(c.Request.Context(), prefix, group)
	if err != nil {
		return reply{}, err
	}
	rows := make([]grafanaMember, len(list.Members))
	for i := range list.Members {
		rows[i] = memberRow(prefix, group, &list.Members[i])
	}
	return grafanaRows(rows), nil
}

func (a *api) grafanaShards(c *gin.Context) (reply, error) {
	prefix, group, err := namedGroup(c)
	if err != nil {
		return reply{}, err
	}
	var all []protocol.Overview
	if prefix != "" && group != "" {
		var one protocol.Overview
		one, err = a.coordinator.Overview(c.Request.Context(), prefix, group)
		all = []protocol.Overview{one}
	} else {
		all, err = a.coordinator.Overviews(c.Request.Context(), prefix, group)
	}
	if err != nil {
		return reply{}, err
	}
	var rows []grafanaShard
	for i := range all {
		rows = append(rows, shardRows(&all[i])...)
	}
	return grafanaRows(rows), nil
}

func (a *api) grafanaAssignments(c *gin.Context) (reply, error) {
	prefix, group, err := namedGroup(c)
	if err != nil || prefix == "" || group == "" {
		return grafanaRows[grafanaAssignment](nil), err
	}
	g, err := a.coordinator.Group(c.Request.Context(), prefix, group)
	if err != nil {
		return reply{}, err
	}
	s, err := a.coordinator.Assignments(c.Request.Context(), prefix, group)
	if err != nil {
		return reply{}, err
	}
	o := ownersOf(&s)
	shards := map[protocol.ShardIndex]bool{}
	for i := range g.ShardCount {
		shards[protocol.ShardIndex(i)] = true
	}
	for _, owned := range []map[protocol.ShardIndex][]string{o.target, o.current, o.revoking} {
		for shard := range owned { // those being removed among them
			shards[shard] = true
		}
	}
	var rows []grafanaAssignment
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		rows = append(rows, grafanaAssignment{
			StreamPrefix: prefix, ConsumerGroup: group, ShardIndex: shard,
			TargetOwners: joined(o.target[shard]), CurrentOwners: joined(o.current[shard]), RevokingOwners: joined(o.revoking[shard]),
		})
	}
	return grafanaRows(rows), nil
}

// everyShard are the values that dashboards send for all shards.
var everyShard = []string{"all", ".*", "__all", "$__all"}

func (a *api) grafanaMessages(c *gin.Context) (reply, error) {
	q, err := queryOf(c)
	if err != nil {
		return reply{}, err
	}
	prefix, group, err := q.group()
	if err != nil || prefix == "" || group == "" {
		return grafanaRows[grafanaMessage](nil), err
	}
	ask, err := q.page()
	if err != nil {
		return reply{}, err
	}
	ask.Count, ask.RecordID = true, q.text("recordId", "")
	selector := q.text("shardIndex", "0")
	switch {
	case ask.RecordID != "":
		selector, ask.Cursor = "all", ""
	case slices.Contains(everyShard, strings.ToLower(selector)):
		ask.All = true
	default:
		shard, err := shardOf(selector)
		if err != nil {
			return reply{}, err
		}
		ask.Shards = []protocol.ShardIndex{shard}
	}
	found, err := a.coordinator.Messages(c.Request.Context(), prefix, group, ask)
	if err != nil {
		return reply{}, err
	}
	rows, err := messageRows(&ask, selector, &found)
	return grafanaRows(rows), err
}
