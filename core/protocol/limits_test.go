package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	tests := []struct {
		name         string
		value        string
		words        string // "" means accepted
		prefixAccept bool
	}{
		{"plain", "orders", "", true},
		{"punctuation", "orders.v2_EU-west:1%#?", "", true},
		{"another script", "주문-1", "", true},
		{"longest", strings.Repeat("x", 200), "", true},
		{"longest counts bytes", strings.Repeat("주", 67), "is 201 bytes long, at most 200 are allowed", false},
		{"empty", "", "must not be blank", false},
		{"blank", " \t ", "must not be blank", false},
		{"slash", "a/b", "must not contain /", false},
		{"line feed", "a\nb", "must not contain control characters", false},
		{"nul", "a\x00", "must not contain control characters", false},
		{"delete", "a\x7f", "must not contain control characters", false},
		{"C1 control", "a\u0085b", "must not contain control characters", false},
		{"not UTF-8", "a\xff", "must be valid UTF-8", false},
		{"braces", "a{b}", "", false},
		{"one brace", "a}", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := ValidateName("memberId", tt.value)
			if tt.words == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tt.words != "" {
				wantRefusal(t, err, "memberId: "+tt.words)
			}
			err = ValidatePrefix("streamPrefix", tt.value)
			if tt.prefixAccept && err != nil {
				t.Errorf("refused as a prefix: %v", err)
			}
			if !tt.prefixAccept {
				wantRefusal(t, err, "streamPrefix: ")
			}
		})
	}
	wantRefusal(t, ValidatePrefix("streamPrefix", "{a}"), "streamPrefix: must not contain { or }")
}

func TestHeartbeatLimit(t *testing.T) {
	for shards, want := range map[int]int{0: 1 << 20, 4096: 1 << 20, 4097: 4097 * 256, MaxShards: 16 << 20} {
		if got := HeartbeatLimit(shards); got != want {
			t.Errorf("%d shards: %d bytes, want %d", shards, got, want)
		}
	}
}

func TestTimings(t *testing.T) {
	if err := DefaultTimings().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	ms := time.Millisecond
	tests := []struct {
		name string
		t    Timings
		want []string // nil means accepted
	}{
		{"the demo's", Timings{300 * ms, 3 * time.Second, 3 * time.Second}, nil},
		{"shortest", Timings{10 * ms, time.Second, time.Second}, nil},
		{"longest", Timings{time.Hour, 24 * time.Hour, 24 * time.Hour}, nil},
		{"nothing set", Timings{}, []string{"heartbeat-interval: is 0s, must be between 10ms and 1h", "member-lease-ttl: is 0s, must be at least 1s"}},
		{"interval too short", Timings{9 * ms, time.Second, time.Second}, []string{"heartbeat-interval: is 9ms"}},
		{"interval too long", Timings{61 * time.Minute, 24 * time.Hour, 24 * time.Hour}, []string{"heartbeat-interval: is 1h1m0s"}},
		{"lease shorter than its margin allows", Timings{10 * ms, 999 * ms, time.Second}, []string{"member-lease-ttl: is 999ms, must be at least 1s"}},
		{"lease too long", Timings{time.Hour, 25 * time.Hour, 25 * time.Hour}, []string{"member-lease-ttl: is 25h0m0s, must be at most 24h", "rebalance-timeout: is 25h0m0s, must be at most 24h"}},
		{"lease under three intervals", Timings{time.Second, 2999 * ms, 3 * time.Second}, []string{"member-lease-ttl: is 2.999s, must be at least three times heartbeat-interval (1s)"}},
		{"rebalance under the lease", Timings{time.Second, 3 * time.Second, 2999 * ms}, []string{"rebalance-timeout: is 2.999s, must not be shorter than member-lease-ttl (3s)"}},
		{"negative", Timings{-1, -1, -1}, []string{"heartbeat-interval", "member-lease-ttl"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.t.Validate()
			if tt.want == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantRefusal(t, err, tt.want...)
		})
	}
}

func TestDerivedTimes(t *testing.T) {
	s := time.Second
	for _, tt := range []struct {
		lease, client, margin time.Duration
	}{
		{15 * s, 5 * s, 1500 * time.Millisecond},
		{60 * s, 5 * s, 6 * s},
		{3 * s, s, 500 * time.Millisecond},
		{5 * s, 5 * s / 3, 500 * time.Millisecond},
	} {
		if got := ClientTimeout(tt.lease); got != tt.client {
			t.Errorf("lease %s: client timeout %s, want %s", tt.lease, got, tt.client)
		}
		if got := LeaseMargin(tt.lease); got != tt.margin {
			t.Errorf("lease %s: margin %s, want %s", tt.lease, got, tt.margin)
		}
	}
	for _, tt := range []struct{ asked, lease, want time.Duration }{
		{0, 15 * s, 0}, {2 * s, 15 * s, 2 * s}, {9 * s, 15 * s, 5 * s}, {time.Hour, 60 * s, 10 * s}, {-s, 15 * s, 0},
	} {
		if got := MaxWait(tt.asked, tt.lease); got != tt.want {
			t.Errorf("asked for %s with a lease of %s: %s, want %s", tt.asked, tt.lease, got, tt.want)
		}
	}
}

func TestAdminBodies(t *testing.T) {
	n := func(i int) *int { return &i }
	long := strings.Repeat("x", MaxReasonBytes+1)
	tests := []struct {
		name string
		body interface{ Validate() error }
		want []string // nil means accepted
	}{
		{"stream", streamBody{CreateStream{InitialShardCount: n(8), GroupStart: StartLatest, RequestedBy: "ann", Reason: "new"}}, nil},
		{"stream, least", streamBody{CreateStream{RequestedBy: "ann"}}, nil},
		{"stream, most", streamBody{CreateStream{InitialShardCount: n(100), GroupStart: StartEarliest, RequestedBy: "ann"}}, nil},
		{"stream without shards", streamBody{CreateStream{InitialShardCount: n(0), RequestedBy: "ann"}}, []string{"initialShardCount: is 0, must be between 1 and 100"}},
		{"stream with absurdly many", streamBody{CreateStream{InitialShardCount: n(101), RequestedBy: "ann"}}, []string{"initialShardCount: is 101"}},
		{"stream, start", streamBody{CreateStream{GroupStart: "newest", RequestedBy: "ann"}}, []string{`groupStart: is "newest", must be earliest or latest`}},
		{"stream, nobody", streamBody{CreateStream{}}, []string{"requestedBy: must not be blank"}},
		{"stream, all at once", streamBody{CreateStream{InitialShardCount: n(-1), GroupStart: "x", Reason: long}},
			[]string{"initialShardCount: is -1", "requestedBy: must not be blank", "reason: is 1001 bytes long, at most 1000 are allowed", "groupStart"}},
		{"group", groupBody{CreateGroup{RequestedBy: "ann"}}, nil},
		{"group with a count", groupBody{CreateGroup{InitialShardCount: n(101), RequestedBy: "a/b"}}, []string{"initialShardCount: is 101", "requestedBy: must not contain /"}},
		{"delete", &Delete{RequestedBy: "ann", Reason: "gone", Force: true, DeleteData: true}, nil},
		{"delete without a reason", &Delete{RequestedBy: "ann"}, []string{"reason: must not be blank"}},
		{"delete with a blank reason", &Delete{RequestedBy: "ann", Reason: " "}, []string{"reason: must not be blank"}},
		{"scale", scaleBody{Scale{TargetShardCount: n(0), RequestedBy: "ann", Reason: "night"}}, nil},
		{"scale to nothing said", scaleBody{Scale{RequestedBy: "ann", Reason: " "}}, []string{"targetShardCount: is missing", "reason: must not be blank"}},
		{"scale below nothing", scaleBody{Scale{TargetShardCount: n(-1), RequestedBy: "ann", Reason: "x"}}, []string{"targetShardCount: is -1, must be between 0 and 100"}},
		{"scale to absurdly many", scaleBody{Scale{TargetShardCount: n(101), Reason: "x"}}, []string{"targetShardCount: is 101", "requestedBy: must not be blank"}},
		{"ignore", &IgnoreGroup{ConsumerGroup: "x", Order: Order{RequestedBy: "ann", Reason: "x"}}, nil},
		{"ignore nobody", &IgnoreGroup{Order: Order{RequestedBy: "ann", Reason: "x"}}, []string{"consumerGroup: must not be blank"}},
		{"ignore for no reason", &IgnoreGroup{ConsumerGroup: "x", Order: Order{RequestedBy: "ann"}}, []string{"reason: must not be blank"}},
		{"give up", &GiveUp{Shards: Shards{3}, Order: Order{RequestedBy: "ann", Reason: "x"}}, nil},
		{"give up nothing", &GiveUp{Order: Order{RequestedBy: "ann", Reason: "x"}}, []string{"shards: must name at least one shard"}},
		{"give up by nobody", &GiveUp{Shards: Shards{3}, Order: Order{Reason: "x"}}, []string{"requestedBy: must not be blank"}},
		{"delete by nobody", &Delete{Reason: "gone"}, []string{"requestedBy: must not be blank"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.body.Validate()
			if tt.want == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantRefusal(t, err, tt.want...)
		})
	}
}

// streamBody, groupBody and scaleBody give the bodies with a configured limit of 100 shards.
type (
	streamBody struct{ CreateStream }
	groupBody  struct{ CreateGroup }
	scaleBody  struct{ Scale }
)

func (b streamBody) Validate() error { return b.CreateStream.Validate(100) }
func (b groupBody) Validate() error  { return b.CreateGroup.Validate(100) }
func (b scaleBody) Validate() error  { return b.Scale.Validate(100) }
