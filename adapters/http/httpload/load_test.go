package httpload_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// answerTimeout is how long the tests wait for what has to come: a machine at load may
// stand still for seconds.
const answerTimeout = time.Minute

// coordinator runs the real one in memory, with a stream, and returns its target. Those
// who watch are told of each request.
func coordinator(t *testing.T, shards int, watch ...func(*http.Request)) (*httpload.Target, *service.Coordinator) {
	t.Helper()
	c, err := service.New(service.Config{ID: "c-1", Logger: slog.New(slog.DiscardHandler)}, service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateStream(t.Context(), "orders", protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	handler, err := httpapi.New(httpapi.Config{
		Access: httpapi.Access{Users: []httpapi.User{{Username: "m", Password: "secret", Roles: []httpapi.Role{httpapi.RoleMember}}}}, AuthenticateMembers: true,
	}, c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, f := range watch {
			f(r)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), answerTimeout)
		defer done()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return at(t, server.URL, "m", "secret"), c
}

func at(t *testing.T, url, username, password string) *httpload.Target {
	t.Helper()
	target, err := httpload.NewTarget(url, username, password)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestFleetSettlesAndKeepsAlive(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var firing atomic.Bool
	var alive sync.Map // who has sent a keepalive
	var members atomic.Int32
	target, c := coordinator(t, 30, func(r *http.Request) {
		if !firing.Load() {
			return
		}
		if _, known := alive.LoadOrStore(r.URL.Path, true); !known && members.Add(1) == 7 {
			stop()
		}
	})
	beat := httpload.NewHTTPBeat(target, "orders", "billing", answerTimeout)
	defer beat.Close()
	fleet := httpload.NewFleet("m-", 7)
	// Two at once, so that those who come first have to let go again.
	if err := fleet.Settle(t.Context(), 30, 2, beat.Beat); err != nil {
		t.Fatal(err)
	}
	g, err := c.Group(t.Context(), "orders", "billing")
	if err != nil || g.State != protocol.GroupStable {
		t.Fatalf("the group is %s, %v", g.State, err)
	}
	gun, err := httpload.NewGun(target, "orders", "billing", fleet.Requests(), answerTimeout)
	if err != nil {
		t.Fatal(err)
	}
	firing.Store(true)
	r, err := gun.Fire(ctx, 100) // until each of them has been heard

	if err != nil || r.Failed > 0 || r.OK < 7 || uint64(r.OK) != r.Latency.Count() {
		t.Errorf("%d answers, %d failures %v, %v", r.OK, r.Failed, r.Complaints, err)
	}
	after, err := c.Group(t.Context(), "orders", "billing")
	if err != nil || after.GroupEpoch != g.GroupEpoch {
		t.Errorf("the group went from epoch %d to %d, %v: that were no keepalives", g.GroupEpoch, after.GroupEpoch, err)
	}
}

func TestFleetLivesThroughJoinAndLeave(t *testing.T) {
	target, c := coordinator(t, 12)
	beat := httpload.NewHTTPBeat(target, "orders", "billing", answerTimeout)
	defer beat.Close()
	fleet := httpload.NewFleet("m-", 3)
	if err := fleet.Settle(t.Context(), 12, 3, beat.Beat); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var living sync.WaitGroup
	var lived error
	living.Go(func() { lived = fleet.Live(ctx, 10*time.Millisecond, time.Second, beat.Beat) })
	// Another one gets its part only if those before let go of it.
	late := httpload.NewFleet("late-", 1)
	if err := late.Settle(t.Context(), 3, 1, beat.Beat); err != nil {
		t.Error(err)
	}
	stop()
	living.Wait()
	if lived != nil {
		t.Error(lived)
	}
	if list, err := c.Members(t.Context(), "orders", "billing"); err != nil || len(list.Members) != 4 {
		t.Errorf("%d members, %v", len(list.Members), err)
	}
}

func TestSettleGivesUp(t *testing.T) {
	target, _ := coordinator(t, 4)
	beat := httpload.NewHTTPBeat(target, "none", "billing", answerTimeout)
	defer beat.Close()
	err := httpload.NewFleet("m-", 2).Settle(t.Context(), 4, 2, beat.Beat)
	if err == nil || !strings.Contains(err.Error(), string(protocol.StatusUnknownMember)) {
		t.Errorf("members of a stream that does not exist: %v", err)
	}
	open := httpload.NewHTTPBeat(at(t, "http://"+closedAddress(t), "", ""), "orders", "billing", answerTimeout)
	defer open.Close()
	var network net.Error
	if err := httpload.NewFleet("m-", 2).Settle(t.Context(), 4, 2, open.Beat); !errors.As(err, &network) {
		t.Errorf("nobody listens: %v", err)
	}
}

func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Only an answer that is OK, and to the very request, counts.
func TestGunCountsWhatIsWrong(t *testing.T) {
	answer := func(status int, text func(request string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(err)
			}
			said := text(string(body))
			w.Header().Set("Content-Length", fmt.Sprint(len(said)))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, said)
		}
	}
	echo := func(status string) func(string) string {
		return func(request string) string {
			_, id, _ := strings.Cut(request, `"requestId":"`)
			id, _, _ = strings.Cut(id, `"`)
			return `{"responseTo":"` + id + `","status":"` + status + `"}`
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		ok      bool
	}{
		{"right", answer(200, echo("OK")), true},
		{"long", answer(200, func(q string) string { return echo("OK")(q) + strings.Repeat(" ", 20_000) }), true},
		{"another status", answer(200, echo("RETRY")), false},
		{"another code", answer(503, echo("OK")), false},
		{"another request", answer(200, func(string) string { return `{"responseTo":"load-x","status":"OK"}` }), false},
		{"broken off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		{"no length", func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "x")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 20 {
					stop()
				}
				tt.handler(w, r)
			}))
			defer server.Close()
			gun, err := httpload.NewGun(at(t, server.URL, "", ""), "orders", "billing", httpload.NewFleet("m-", 3).Requests(), answerTimeout)
			if err != nil {
				t.Fatal(err)
			}
			r, err := gun.Fire(ctx, 2)
			if err != nil {
				t.Fatal(err)
			}
			if good := r.OK > 0 && r.Failed == 0; good != tt.ok || !tt.ok && (r.OK > 0 || len(r.Complaints) == 0) {
				t.Errorf("%d good, %d failed: %q", r.OK, r.Failed, r.Complaints)
			}
		})
	}
}

func TestNewTargetRefuses(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8080", "ftp://host", "http://user:secret@host", "http://host/?x=1", "http://"} {
		if _, err := httpload.NewTarget(url, "", ""); err == nil {
			t.Errorf("%q is taken", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

// An answer after which the other end closes the connection is one like any other;
// the next heartbeat goes over another connection.
func TestConnectionsThatAreClosed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"responseTo":"r","status":"OK"}`)
	}))
	defer server.Close()
	target := at(t, server.URL, "", "")
	beat := httpload.NewHTTPBeat(target, "orders", "billing", answerTimeout)
	defer beat.Close()
	for range 3 {
		r, err := beat.Beat(t.Context(), httpload.NewFleet("m-", 1).Requests()[0])
		if err != nil || r.Status != protocol.StatusOK {
			t.Errorf("%+v, %v", r, err)
		}
	}
	c, err := httpload.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	request := target.HeartbeatRequest("orders", "billing", "m", []byte("{}"))
	if status, _, err := c.RoundTrip(request, answerTimeout); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if _, _, err := c.RoundTrip(request, answerTimeout); err == nil {
		t.Error("a connection that is being closed takes another request")
	}
}
