package producer

import (
	"crypto/sha1" //nolint:gosec // how Redis names its scripts
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// FullPolicy says what happens to a record for a shard that has
// Config.MaxStreamLength records.
type FullPolicy string

// The policies of Config.WhenFull.
const (
	// RefuseWhenFull refuses the record: ErrStreamFull, and nothing is lost. The
	// limit is exact, with any number of producers.
	RefuseWhenFull FullPolicy = "refuse"
	// DropWhenFull removes the oldest records in whole blocks of the stream, as
	// MAXLEN ~ does. A shard then has up to a tenth or 100 records more than the
	// limit, whichever is less, and one block (100 records unless the server says
	// otherwise).
	DropWhenFull FullPolicy = "drop"
	// DropWhenFullExactly removes the oldest record for each that is stored in a full shard.
	DropWhenFullExactly FullPolicy = "drop-exactly"
)

const (
	// fullCode begins the script's error for a full shard.
	fullCode = "RSCFULL"
	// maxDropChunk is how many records DropWhenFull lets gather over the limit
	// before it looks what can go, which costs more than storing one.
	maxDropChunk = 100
	// dropWarning is the least time between two log lines about unread records
	// that were dropped.
	dropWarning = time.Minute
)

//go:embed refuse.lua
var refuseScript string

//go:embed drop.lua
var dropScript string

// limit is the script that stores a record under a length limit, nil for none.
// Each record is one call with one key. The first of a pipeline brings the whole
// script, which the server then knows, and the others its digest.
type limit struct {
	script, digest string
	max            []byte
	options        []any // behind max
}

func newLimit(cfg *Config) *limit {
	if cfg.MaxStreamLength == 0 {
		return nil
	}
	l := &limit{script: refuseScript, max: strconv.AppendInt(nil, cfg.MaxStreamLength, 10)}
	switch cfg.WhenFull {
	case DropWhenFull:
		l.script, l.options = dropScript, []any{"~", min(max(cfg.MaxStreamLength/10, 1), maxDropChunk)}
	case DropWhenFullExactly:
		l.script, l.options = dropScript, []any{"=", 1}
	default:
	}
	sum := sha1.Sum([]byte(l.script)) //nolint:gosec // as above
	l.digest = hex.EncodeToString(sum[:])
	return l
}

// appendHead appends what stands before a record's fields. e stands for the
// limit, see MarshalBinary.
func (l *limit) appendHead(args []any, e *entry, first bool) []any {
	if first {
		args = append(args, "eval", &l.script)
	} else {
		args = append(args, "evalsha", &l.digest)
	}
	args = append(args, "1", &e.key, e)
	return append(args, l.options...)
}

// splitDrops takes apart what drop.lua answers: an id and, when records were removed,
// how many and how many of them were unread.
func splitDrops(answer string) (id string, d Drops) {
	id, counts, found := strings.Cut(answer, " ")
	if !found {
		return id, d
	}
	records, unread, _ := strings.Cut(counts, " ")
	d.Records, _ = strconv.ParseUint(records, 10, 64)
	d.Unread, _ = strconv.ParseUint(unread, 10, 64)
	return id, d
}
