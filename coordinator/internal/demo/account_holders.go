package demo

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// holder is one stay of a shard with one consumer.
type holder struct {
	member string
	token  int64
}

// stay is what a holder did on a shard.
type stay struct {
	holder
	first *handling
	// end is when its last handling was over.
	end time.Duration
}

func (h *handling) holder() holder { return holder{h.member, h.token} }

// checkHolders looks at each shard's holders: that they come one after the
// other, and how long the shard was idle between them.
func (a *accounts) checkHolders() {
	var overlaps tally
	for _, shard := range slices.Sorted(maps.Keys(a.shards)) {
		var stays []*stay
		at := map[holder]*stay{}
		for _, h := range a.shards[shard] {
			if intrudes(stays, h) {
				overlaps.add(h)
			}
			s := at[h.holder()]
			if s == nil {
				s = &stay{holder: h.holder(), first: h}
				at[s.holder] = s
				stays = append(stays, s)
			}
			s.end = max(s.end, h.end)
		}
		slices.SortStableFunc(stays, func(x, y *stay) int { return cmp.Compare(x.token, y.token) })
		for i := 1; i < len(stays); i++ {
			a.measureMove(stays[i-1], stays[i])
		}
	}
	a.figures.Overlaps = overlaps.count
	a.complainIf(overlaps, "%d records were handled while another consumer held the shard, the first of them %s")
}

// intrudes reports whether h began while another holder of the shard was at
// work, or after one with a higher token had begun. stays are those that began
// before h.
func intrudes(stays []*stay, h *handling) bool {
	for _, s := range stays {
		if s.holder != h.holder() && (s.end > h.start || s.token > h.token) {
			return true
		}
	}
	return false
}

// measureMove takes down how long records waited when a shard went from one
// holder to the next.
func (a *accounts) measureMove(from, to *stay) {
	f := &a.figures
	killed, dead := a.kills[from.member]
	if dead && to.first.start >= killed {
		f.Takeover = max(f.Takeover, to.first.start-max(killed, a.available(to.first)))
		f.Takeovers++
		return
	}
	f.Handover = max(f.Handover, to.first.start-max(from.end, a.available(to.first)))
	f.Handovers++
}

// available is when the record of h could be read.
func (a *accounts) available(h *handling) time.Duration {
	if r := a.records[h.place]; r != nil {
		return r.at
	}
	return 0
}
