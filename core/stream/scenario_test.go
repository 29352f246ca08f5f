package stream

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/scenario"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// world is one stream in a story.
type world struct {
	state State
	now   time.Time
	in    Input
	rules rules.Set
}

func newWorld(off rules.Set) *world {
	return &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rules: off}
}

func (w *world) do(t *testing.T, c scenario.Cmd) string {
	t.Helper()
	w.now = w.now.Add(time.Second)
	name := ""
	if len(c.Words) > 0 {
		name = c.Words[0]
	}
	switch c.Name {
	case "create":
		return w.apply(t, Create{
			Prefix: name, ShardCount: int(c.Int(t, "shards", 1)), AutoCreateGroups: !c.Has("no-auto"),
			GroupStart: protocol.GroupStart(c.Str("start", string(protocol.StartEarliest))), RoutingLease: 30 * time.Second,
		})
	case "import":
		return w.apply(t, Import{Prefix: name, ShardCount: int(c.Int(t, "shards", 1)), Groups: c.List("groups"), RoutingLease: 30 * time.Second})
	case "import-many":
		return w.apply(t, Import{Prefix: name, ShardCount: 1, Groups: make([]string, c.Int(t, "n", 0))})
	case "ensure":
		return w.apply(t, EnsureGroup{Name: name, ByJoin: c.Has("by-join"), Found: c.Has("found"), New: c.Has("new"), ShardCount: int(c.Int(t, "shards", 0))})
	case "ensure-many":
		for i := range c.Int(t, "n", 0) {
			if out := w.apply(t, EnsureGroup{Name: fmt.Sprintf("g%02d", i)}); !strings.HasPrefix(out, "-") {
				return fmt.Sprintf("group %d: %s", i, out)
			}
		}
		return ""
	case "provisioned":
		return w.apply(t, Provisioned{})
	case "group-created":
		cmd := GroupCreated{Name: name}
		if g, there := w.state.Group(name); there {
			cmd.Since = g.CreatedAt.UnixMilli() - c.Int(t, "older", 0)
		}
		return w.apply(t, cmd)
	case "delete-group":
		return w.apply(t, DeleteGroup{Name: name, Force: c.Has("force"), DeleteData: c.Has("data")})
	case "keep-group":
		return w.apply(t, KeepGroup{name})
	case "delete-finally":
		return w.apply(t, DeleteFinally{name})
	case "group-deleted":
		return w.apply(t, GroupDeleted{Name: name, Held: c.Has("held")})
	case "delete":
		return w.apply(t, Delete{DeleteData: c.Has("data")})
	case "announce":
		d, err := time.ParseDuration(name)
		if err != nil {
			t.Fatalf("%s: %v", c.Pos, err)
		}
		return w.apply(t, AnnounceLease{d})
	case "scale":
		return w.apply(t, Scale{ID: c.Str("id", "m"), To: int(c.Int(t, "to", 0)), RequestedBy: "ops", Reason: "load"})
	case "scale-many":
		for i := range int(c.Int(t, "n", 0)) {
			id := fmt.Sprintf("m%02d", i)
			w.apply(t, Scale{ID: id, To: 2 + i})
			w.apply(t, Activate{ID: id})
			w.apply(t, BeginDrain{ID: id, Switched: w.state.Switched})
		}
		return ""
	case "activate":
		return w.apply(t, Activate{ID: name, Groups: c.List("groups")})
	case "adopted":
		return w.apply(t, Adopted{name, w.state.Version - c.Int(t, "older", 0)})
	case "went-back":
		return w.apply(t, GroupWentBack{name})
	case "stream-went-back":
		return w.apply(t, WentBack{w.state.Version + c.Int(t, "by", 0), int(c.Int(t, "highest", 0))})
	case "adopt-all":
		for _, g := range w.state.Groups {
			w.apply(t, Adopted{g.Name, w.state.Version})
		}
		return ""
	case "begin-drain":
		return w.apply(t, BeginDrain{ID: name, Switched: w.state.Switched - c.Int(t, "older", 0)})
	case "prove":
		var p Prove
		for _, i := range ints(t, c.Words) {
			p.Proofs = append(p.Proofs, Proof{i, fmt.Sprintf("9-%d", i)})
		}
		for i := range int(c.Int(t, "first-of-all", 0)) {
			p.Proofs = append(p.Proofs, Proof{i, "9-9"})
		}
		return w.apply(t, p)
	case "retired":
		return w.apply(t, Retire{Gone: ints(t, c.Words)})
	case "kept":
		return w.apply(t, Retire{Kept: ints(t, c.Words)})
	case "rollback":
		return w.apply(t, Rollback{name})
	case "rolled-back":
		return w.apply(t, RolledBack{ID: name, Groups: c.List("groups")})
	case "strays":
		return w.apply(t, FoundStrays{ints(t, c.Words)})
	case "ignore":
		return w.apply(t, IgnoreGroup{name})
	case "ignore-many":
		for i := range c.Int(t, "n", 0) {
			if out := w.apply(t, IgnoreGroup{fmt.Sprintf("x%02d", i)}); !strings.HasPrefix(out, "-") {
				return fmt.Sprintf("group %d: %s", i, out)
			}
		}
		return ""
	case "give-up":
		return w.apply(t, GiveUp{ints(t, c.Words)})
	case "blocked":
		return w.blocked(t, c)
	case "next":
		w.in = Input{Look: c.Has("look"), Rules: w.rules}
		if c.Has("routes-over") {
			w.in.RoutesOver = w.state.Switched
		}
		if c.Has("kinds") {
			var kinds []string
			for _, s := range w.state.Next(w.in) {
				kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", s), "stream."))
			}
			return strings.Join(kinds, ", ")
		}
		return w.next()
	case "show":
		return w.show()
	}
	t.Fatalf("%s: unknown command %s", c.Pos, c.Name)
	return ""
}

// apply plays a command and checks on the way that the old state is left as it
// was, and that the new one survives a trip through the store.
func (w *world) apply(t *testing.T, cmd Command) string {
	t.Helper()
	before := encode(t, w.state)
	next, r, events, err := Apply(w.state, Input{Now: w.now, Rules: w.rules}, cmd)
	if encode(t, w.state) != before {
		t.Error("Apply changed the state that it was given")
	}
	if err != nil {
		if !reflect.DeepEqual(next, w.state) || r.Changed || len(events) > 0 {
			t.Errorf("a refusal changes the state or tells of events: %v", events)
		}
		return "refused: " + err.Error()
	}
	if r.Changed == reflect.DeepEqual(next, w.state) {
		t.Errorf("changed is %v, but before and after are\n%+v\n%+v", r.Changed, w.state, next)
	}
	w.state = next
	if next.Exists() {
		got, err := Decode([]byte(encode(t, next)))
		if err != nil {
			t.Fatalf("the state cannot be read back: %v", err)
		}
		if encode(t, got) != encode(t, next) {
			t.Errorf("the state changes in the store:\n%+v\n%+v", next, got)
		}
		w.state = got
	}
	var out []string
	for _, e := range events {
		out = append(out, "- "+event(e))
	}
	if !r.Changed {
		out = append(out, "nothing to save")
	}
	return strings.Join(out, "\n")
}

func encode(t *testing.T, s State) string {
	t.Helper()
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func event(e Event) string {
	switch e := e.(type) {
	case Created:
		return fmt.Sprintf("stream %s created with %d shards", e.Prefix, e.ShardCount)
	case Resharding:
		return fmt.Sprintf("%s from %d to %d is %s", e.ID, e.From, e.To, e.State)
	case ShardsRetired:
		return fmt.Sprintf("shards %v are gone", e.Shards)
	case WritesLost:
		return "the last writes are lost"
	case StraysFound:
		return fmt.Sprintf("strays %v are found", e.Shards)
	case GroupIgnored:
		return fmt.Sprintf("group %s is ignored", e.Group)
	case ShardsGivenUp:
		return fmt.Sprintf("shards %v are given up", e.Shards)
	case Deleting:
		return fmt.Sprintf("stream %s is being deleted, data %v", e.Prefix, e.DeleteData)
	case GroupChanged:
		if e.Phase == "" {
			return fmt.Sprintf("group %s of %s is gone", e.Group, e.Prefix)
		}
		return fmt.Sprintf("group %s of %s is %s", e.Group, e.Prefix, e.Phase)
	}
	return fmt.Sprintf("%T", e)
}

func (w *world) next() string {
	var out []string
	for _, s := range w.state.Next(w.in) {
		switch s := s.(type) {
		case ProvisionStep:
			out = append(out, fmt.Sprintf("provision %d to %d for groups %v from the %s%s, then %s", s.First, s.End, s.Groups, s.Start, renewed[s.Renew], command(s.Done)))
		case CreateGroupStep:
			g, _ := w.state.Group(s.Name)
			done := strings.ReplaceAll(command(s.Done), fmt.Sprintf(" %d", g.CreatedAt.UnixMilli()), "")
			out = append(out, fmt.Sprintf("create %s, again %v, then %s", s.Name, s.Again, done))
		case AskGroupStep:
			out = append(out, fmt.Sprintf("ask for members of %s, then %s, or %s", s.Name, command(s.Done), command(s.Refused)))
		case DeleteGroupStep:
			out = append(out, fmt.Sprintf("delete %s force %v, data %v up to %d, then %s, or if it was held %s", s.Name, s.Force, s.DeleteData, s.End, command(s.Done), command(s.DoneHeld)))
		case DeleteStreamStep:
			out = append(out, fmt.Sprintf("delete the stream, data %v up to %d", s.DeleteData, s.End))
		case AdoptStep:
			out = append(out, fmt.Sprintf("%s adopts %d written, %d read, without %v", s.Name, s.Layout.ShardCount, s.Layout.ReadCount, s.Layout.Closed))
		case NoteStep:
			out = append(out, "note "+strings.ReplaceAll(command(s.Done), fmt.Sprint(w.state.Switched), "now"))
		case LookStep:
			out = append(out, fmt.Sprintf("look at %v", s.Shards))
		case RetireStep:
			out = append(out, fmt.Sprintf("retire %v when %v have let go, not without %v, ignoring %v", s.Shards, s.Readers, s.Groups, s.Ignored))
		case FindStep:
			out = append(out, fmt.Sprintf("find strays from %d to %d", s.First, s.End))
		default:
			out = append(out, fmt.Sprintf("%T", s))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

var renewed = map[bool]string{true: ", marked anew"}

func ints(t *testing.T, words []string) (out []int) {
	t.Helper()
	for _, word := range words {
		i, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, i)
	}
	return out
}

// blocked looks at shards, given as shard:group:pending:unread, and says what is in
// the way. readers are shard:group:member.
func (w *world) blocked(t *testing.T, c scenario.Cmd) string {
	var shards []Shard
	for _, word := range c.Words {
		part := strings.Split(word, ":")
		if len(part) != 4 {
			continue
		}
		n := ints(t, []string{part[0], part[2], part[3]})
		if len(shards) == 0 || shards[len(shards)-1].Index != n[0] {
			shards = append(shards, Shard{Index: n[0], Exists: true, LastID: "9-9", Records: 5})
		}
		sh := &shards[len(shards)-1]
		if part[1] == "" {
			continue
		}
		cursor := Cursor{Group: part[1], Pending: int64(n[1]), Unread: int64(n[2]), Lag: -1}
		if n[1] > 0 {
			cursor.OldestID = "2-1"
		}
		if n[2] > 0 {
			cursor.NextID = "3-1"
		}
		sh.Cursors = append(sh.Cursors, cursor)
	}
	for _, word := range c.List("readers") {
		part := strings.Split(word, ":")
		r := &Reader{Group: part[1], Member: part[2]}
		if r.Member == "damaged" {
			*r = Reader{Group: part[1], Err: protocol.ErrCorrupt}
		}
		for i := range shards {
			if strconv.Itoa(shards[i].Index) == part[0] {
				shards[i].Reader = r
			}
		}
	}
	in := Input{Rules: w.rules}
	if c.Has("routes-over") {
		in.RoutesOver = w.state.Switched
	}
	var trouble error
	if c.Has("trouble") {
		trouble = errors.New("no room in Redis")
	}
	out := []string{fmt.Sprintf("proven: %v", w.state.Prove(in, shards).Proofs)}
	for _, b := range w.state.Blocked(in, shards, trouble) {
		out = append(out, fmt.Sprintf("%s: %s (next %q)", b.Kind, b.Reason, b.NextID))
	}
	return strings.Join(out, "\n")
}

func command(c Command) string {
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%T%v", c, c)
}

func (w *world) show() string {
	s := &w.state
	if !s.Exists() {
		return "no stream"
	}
	out := []string{fmt.Sprintf("%s: %d shards (highest %d), provisioned %v, groups by join %v, from the %s, routing lease %s",
		s.Prefix, s.ShardCount, s.HighestCount, s.Provisioned, s.AutoCreateGroups, s.GroupStart, s.RoutingLease)}
	if s.ReadCount != s.ShardCount {
		out = append(out, fmt.Sprintf("%d shards are read, %v of them gone, proven and closed %v, given up %v, ignoring %v", s.ReadCount, s.Retired, s.Proofs, s.GivenUp, s.Ignored))
	}
	for _, m := range s.Migrations {
		out = append(out, fmt.Sprintf("change %s from %d to %d: %s", m.ID, m.From, m.To, m.State))
	}
	for _, g := range s.Groups {
		line := fmt.Sprintf("group %s %s", g.Name, g.Phase)
		if g.Force {
			line += " by force"
		}
		if g.Final {
			line += " finally"
		}
		if g.DeleteData {
			line += " with data"
		}
		out = append(out, line)
	}
	if len(s.Deleted) > 0 {
		out = append(out, fmt.Sprintf("deleted were %v, held %v", s.Deleted, s.Held))
	}
	if s.Removal != nil {
		out = append(out, fmt.Sprintf("to be removed, data %v", s.Removal.DeleteData))
	}
	return strings.Join(append(out, fmt.Sprintf("the API lists %v", s.Describe().Groups)), "\n")
}

func TestScenarios(t *testing.T) {
	scenario.Files(t, "testdata/*.txt", func(t *testing.T, path string) {
		scenario.Run(t, path, newWorld(0).do)
	})
}

// TestEveryRuleIsNeeded switches each rule off and demands that the story of the rule
// comes out differently.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, tc := range []struct {
		rule rules.Rule
		name string
		file string
	}{
		{rules.ShardsBeforeRoutes, "shards come before routes", "scale_out"},
		{rules.VersionWithCount, "the version changes with the count", "scale_in"},
		{rules.NewShardsFromStart, "groups begin at the first record of new shards", "rollback"},
		{rules.RemovedShardsAreRead, "removed shards are read", "scale_in"},
		{rules.RoutesRunOut, "routes are waited for", "scale_in"},
		{rules.LostWritesAreTold, "a record that has lost its last writes is noticed", "stream_went_back"},
		{rules.ReadersLetGo, "a shard is taken from its readers before it is removed", "scale_in"},
		{rules.GroupsAreOnShards, "a group that is missing is waited for", "scale_in"},
		{rules.DrainByCursor, "a drain goes by the cursor", "scale_in"},
		{rules.RetireProvesAgain, "a shard is looked at again when it is removed", "scale_in"},
		{rules.RetireKnowsStream, "only the proven stream is removed", "scale_in"},
		{rules.ProvisionRenews, "shards that are wanted again are marked", "rollback"},
		{rules.RollbackProvisions, "a rollback creates what it goes back to", "rollback"},
		{rules.StraysAreFound, "shards that came late are looked for", "strays_while_draining"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := "testdata/" + tc.file + ".txt"
			if d := scenario.Outcome(t, path, newWorld(0).do); len(d) > 0 {
				t.Fatalf("the story does not hold with all rules on: %v", d)
			}
			if d := scenario.Outcome(t, path, newWorld(rules.Without(tc.rule)).do); len(d) == 0 {
				t.Fatalf("%s comes out the same without the rule", path)
			}
		})
	}
}
