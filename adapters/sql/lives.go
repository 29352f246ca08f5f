package sql

import (
	"slices"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// lifeRow is what is written of one incarnation; nil leaves what is there.
type lifeRow struct {
	life          string
	stamp, report []byte
}

// lifeChanges are changes of what lies beside a group, each incarnation in one list of
// rows at most, sorted: writers of the same rows must come in the same order.
type lifeChanges struct {
	// write are rows to add or to replace.
	write []lifeRow
	// unstamped lose their stamps and ended their rows, after write.
	unstamped, ended []string
}

// changesOf works up what a save or a renewal is to write. The last word on an
// incarnation counts, an empty stamp removes it, and one that ended is gone whatever
// else is said of it.
func changesOf(stamps []port.Stamp, reports []port.Report, ended []string) (lifeChanges, error) {
	rows := make(map[string]*lifeRow, len(stamps))
	unstamped := map[string]struct{}{}
	row := func(life string) *lifeRow {
		r := rows[life]
		if r == nil {
			r = &lifeRow{life: life}
			rows[life] = r
		}
		return r
	}
	for _, one := range stamps {
		if err := checkNames(one.Life, one.Value); err != nil {
			return lifeChanges{}, err
		}
		if one.Value == "" {
			unstamped[one.Life] = struct{}{}
			if r := rows[one.Life]; r != nil {
				r.stamp = nil
			}
			continue
		}
		delete(unstamped, one.Life)
		row(one.Life).stamp = []byte(one.Value)
	}
	for _, one := range reports {
		if err := checkNames(one.Life); err != nil {
			return lifeChanges{}, err
		}
		row(one.Life).report = notNil(one.Body)
	}
	for _, life := range ended {
		delete(rows, life)
		delete(unstamped, life)
	}
	var c lifeChanges
	for _, r := range rows {
		if r.stamp != nil || r.report != nil {
			c.write = append(c.write, *r)
		}
	}
	slices.SortFunc(c.write, func(a, b lifeRow) int { return strings.Compare(a.life, b.life) })
	for life := range unstamped {
		c.unstamped = append(c.unstamped, life)
	}
	slices.Sort(c.unstamped)
	c.ended = slices.Compact(slices.Sorted(slices.Values(ended)))
	return c, nil
}

// notNil returns b, and something empty for nil: a NULL means something else.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// chunked writes the rows of rsc_lives in several statements of some rows each, for
// databases that have no arrays.
type chunked struct {
	// onConflict says what to do about a row that is there.
	onConflict string
	// most is how many rows are written at a time.
	most int
}
