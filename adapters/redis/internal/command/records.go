package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// layoutVersion describes the fields of a record's hash.
const layoutVersion = "1"

// A DamageError says what is wrong with a record in Redis.
type DamageError struct {
	Key     string
	Problem string
}

// Error names the key and the problem.
func (d *DamageError) Error() string { return fmt.Sprintf("key %q %s", d.Key, d.Problem) }

// GroupKeys are the keys of one group; they share a slot.
type GroupKeys struct {
	// Metadata is a hash with the aggregate and its version.
	Metadata string
	// Live is a hash of stamps, Report one of reports, by incarnation.
	Live, Report string
}

func (k GroupKeys) all() []string { return []string{k.Metadata, k.Live, k.Report} }

// Records reads and writes the records of groups and streams.
type Records struct {
	*Client
	// fixed is the instance to answer with where the server cannot tell its run
	// id, empty where it can.
	fixed string
	// Muted, if set, is called once, when the server does not let us announce what
	// was saved.
	Muted func(channel string)
	muted atomic.Bool
}

// OpenRecords finds out what names the instance of the store: the run id of the
// server that carries a script out, or where that cannot be had the store's id,
// which is drawn if there is none.
func (c *Client) OpenRecords(ctx context.Context, id StoreID) (r *Records, hasRunID bool, err error) {
	storeID, _, err := c.StoreID(ctx, id)
	if err != nil {
		return nil, false, err
	}
	runID, err := c.read(ctx, instanceProbe, []string{id.Key})
	if err != nil {
		return nil, false, err
	}
	if _, hasRunID := runID.(string); hasRunID {
		return &Records{Client: c}, true, nil
	}
	return &Records{Client: c, fixed: storeID}, false, nil
}

// Instance returns the instance that answers for key.
func (r *Records) Instance(ctx context.Context, key string) (string, error) {
	reply, err := r.read(ctx, readInstance, []string{key}, r.fixed)
	if err != nil {
		return "", err
	}
	here, ok := reply.(string)
	if !ok {
		return "", errReply(reply)
	}
	return here, nil
}

// LoadGroup reads a group at one moment. Errors: *DamageError.
func (r *Records) LoadGroup(ctx context.Context, keys GroupKeys, known port.Version) (port.GroupRecord, error) {
	load := groupLoad.call([]string{keys.Metadata, keys.Live}, append(r.at(known), r.replicas.count))
	load.replicas = r.replicas
	reply, err := r.one(ctx, load)
	if err != nil {
		return port.GroupRecord{}, typed(err, keys.Metadata)
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 6 {
		return port.GroupRecord{}, errReply(reply)
	}
	record, err := parseRecord(keys.Metadata, "aggregate", parts[:5], known)
	if err != nil {
		return port.GroupRecord{}, err
	}
	flat, ok := parts[5].([]any)
	if !ok || len(flat)%2 != 0 {
		return port.GroupRecord{}, errReply(parts[5])
	}
	stamps := make(map[string]string, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		life, ok1 := flat[i].(string)
		value, ok2 := flat[i+1].(string)
		if !ok1 || !ok2 {
			return port.GroupRecord{}, errReply(flat[i])
		}
		stamps[life] = value
	}
	return port.GroupRecord{Record: record, Stamps: stamps}, nil
}

// SaveGroup writes a group when the conditions of s hold.
// Errors: port.ErrConflict.
func (r *Records) SaveGroup(ctx context.Context, keys GroupKeys, s port.GroupSave, tell Announcement) (port.Version, error) {
	next := port.Version{Revision: s.Expected.Revision + 1, Nonce: s.Nonce}
	stamps, removed := stampLists(s.Stamps)
	args := append(make([]any, 0, 18+2*len(s.Relied)+len(stamps)+len(removed)+2*len(s.Reports)+len(s.Ended)), r.at(s.Expected)...)
	args = append(args, next.Revision, next.Nonce, s.Body, s.SchemaVersion, layoutVersion, s.UpdatedAt, 2*len(s.Relied))
	for _, stamp := range s.Relied {
		args = append(args, stamp.Life, stamp.Value)
	}
	args = appendList(args, stamps)
	args = appendList(args, removed)
	args = appendReports(args, s.Reports)
	args = append(args, len(s.Ended))
	for _, life := range s.Ended {
		args = append(args, life)
	}
	reply, err := r.keep(ctx, groupSave, keys.all(), append(args, tell.Channel, tell.Text)...)
	if err != nil {
		return port.Version{}, err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 3 {
		return port.Version{}, errReply(reply)
	}
	r.mute(tell, parts[2])
	return saved(parts[:2], next)
}

// RenewGroup writes stamps and reports when the group is at the version
// expected. Errors: port.ErrConflict.
func (r *Records) RenewGroup(ctx context.Context, keys GroupKeys, n port.Renewal) error {
	stamps, removed := stampLists(n.Stamps)
	args := append(make([]any, 0, 7+len(stamps)+len(removed)+2*len(n.Reports)), r.at(n.Expected)...)
	args = appendList(args, stamps)
	args = appendList(args, removed)
	args = appendReports(args, n.Reports)
	reply, err := r.keep(ctx, groupRenew, keys.all(), args...)
	return done(reply, err)
}

// DeleteGroup removes a group at version expected. Errors: port.ErrConflict.
func (r *Records) DeleteGroup(ctx context.Context, keys GroupKeys, expected port.Version, tell Announcement) error {
	return r.remove(ctx, keys.all(), expected, tell)
}

// remove deletes a record, and what lies beside it, at version expected.
func (r *Records) remove(ctx context.Context, keys []string, expected port.Version, tell Announcement) error {
	reply, err := r.keep(ctx, recordDelete, keys, append(r.at(expected), tell.Channel, tell.Text)...)
	if err != nil {
		return err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return errReply(reply)
	}
	r.mute(tell, parts[1])
	return done(parts[0], nil)
}

// Reports returns the reports of a group.
func (r *Records) Reports(ctx context.Context, keys GroupKeys) (map[string][]byte, error) {
	all, err := r.ReadHash(ctx, keys.Report)
	if err != nil {
		return nil, err
	}
	reports := make(map[string][]byte, len(all))
	for life, body := range all {
		reports[life] = []byte(body)
	}
	return reports, nil
}

// LoadStream reads a stream record. Errors: *DamageError.
func (r *Records) LoadStream(ctx context.Context, key string) (port.Record, error) {
	reply, err := r.read(ctx, streamLoad, []string{key}, r.at(port.Version{})...)
	if err != nil {
		return port.Record{}, typed(err, key)
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 5 {
		return port.Record{}, errReply(reply)
	}
	return parseRecord(key, "record", parts, port.Version{})
}

// SaveStream writes a stream record when it is at the version expected.
// Errors: port.ErrConflict.
func (r *Records) SaveStream(ctx context.Context, key string, s port.StreamSave) (port.Version, error) {
	next := port.Version{Revision: s.Expected.Revision + 1, Nonce: s.Nonce}
	args := append(r.at(s.Expected), next.Revision, next.Nonce, s.Body, layoutVersion)
	reply, err := r.keep(ctx, streamSave, []string{key}, args...)
	if err != nil {
		return port.Version{}, err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return port.Version{}, errReply(reply)
	}
	return saved(parts, next)
}

// DeleteStream removes a stream record at version expected.
// Errors: port.ErrConflict.
func (r *Records) DeleteStream(ctx context.Context, key string, expected port.Version) error {
	return r.remove(ctx, []string{key}, expected, Announcement{})
}

// at begins the arguments of a script on a record: the instance to answer with,
// and a version.
func (r *Records) at(v port.Version) []any {
	return []any{r.fixed, v.Instance, v.Revision, v.Nonce}
}

// stampLists returns what to write, as fields and values, and what to remove.
// The last word on an incarnation counts.
func stampLists(stamps []port.Stamp) (write, remove []string) {
	write = make([]string, 0, 2*len(stamps))
	for _, stamp := range stamps {
		write = append(write, stamp.Life, stamp.Value)
		if stamp.Value == "" {
			remove = append(remove, stamp.Life)
		}
	}
	if len(remove) == 0 {
		return write, nil // HSET takes the last of several values by itself
	}
	last := make(map[string]string, len(stamps))
	for _, stamp := range stamps {
		last[stamp.Life] = stamp.Value
	}
	write, remove = write[:0], remove[:0]
	for life, value := range last {
		if value == "" {
			remove = append(remove, life)
		} else {
			write = append(write, life, value)
		}
	}
	return write, remove
}

func appendList(args []any, list []string) []any {
	args = append(args, len(list))
	for _, s := range list {
		args = append(args, s)
	}
	return args
}

func appendReports(args []any, reports []port.Report) []any {
	args = append(args, 2*len(reports))
	for _, report := range reports {
		args = append(args, report.Life, report.Body)
	}
	return args
}

// parseRecord reads instance, existence, revision, nonce and body. The body is
// in the field bodyField, unless the record is at the version known.
func parseRecord(key, bodyField string, parts []any, known port.Version) (port.Record, error) {
	var record port.Record
	var ok bool
	if record.Version.Instance, ok = parts[0].(string); !ok {
		return port.Record{}, errReply(parts[0])
	}
	if parts[1] == int64(0) {
		return record, nil
	}
	revision, _ := parts[2].(string)
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || n < 1 {
		return port.Record{}, &DamageError{Key: key, Problem: fmt.Sprintf("has no revision above 0 in its field revision, but %.40q", revision)}
	}
	record.Version.Revision = n
	record.Version.Nonce, _ = parts[3].(string) // missing in records of other programs
	if record.Version == known {
		return record, nil
	}
	body, ok := parts[4].(string)
	if !ok {
		return port.Record{}, &DamageError{Key: key, Problem: "has no field " + bodyField}
	}
	record.Body = []byte(body)
	return record, nil
}

// saved reads what a script that saves says: whether it did, and the instance.
func saved(parts []any, next port.Version) (port.Version, error) {
	var ok bool
	if next.Instance, ok = parts[1].(string); !ok {
		return port.Version{}, errReply(parts[1])
	}
	return next, done(parts[0], nil)
}

// done reads the reply of a script that returns whether its conditions held.
func done(reply any, err error) error {
	switch {
	case err != nil:
		return err
	case reply == int64(1):
		return nil
	case reply == int64(0):
		return port.ErrConflict
	}
	return errReply(reply)
}

// typed words the error of a key that holds something else than a hash.
func typed(err error, key string) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return &DamageError{Key: key, Problem: "(or one beside it) is not a hash"}
	}
	return err
}

// IsDamage reports whether err says that a record is damaged.
func IsDamage(err error) bool {
	var d *DamageError
	return errors.As(err, &d)
}
