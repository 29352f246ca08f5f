package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// patience bounds the waits of these tests; nothing waits that long.
const patience = time.Minute

// log is a log that a test reads while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// settings are those of a test: a free port, and what settings say as key=value.
func settings(t *testing.T, pairs ...string) config.Config {
	t.Helper()
	flags := []config.Flag{{Key: "server.address", Value: "127.0.0.1:0"}, {Key: "coordinator.id", Value: "c-1"}}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		flags = append(flags, config.Flag{Key: key, Value: value, Name: "test"})
	}
	cfg, _, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// running is a server that runs.
type running struct {
	*Server
	log  *logBuffer
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, cfg config.Config, options Options) *running {
	t.Helper()
	r := &running{log: new(logBuffer), done: make(chan error, 1)}
	options.Logger = r.log.logger()
	ctx, stop := context.WithCancel(context.Background())
	s, err := New(ctx, cfg, options)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	r.Server, r.stop = s, stop
	go func() { r.done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if r.done != nil {
			if err := r.end(t); err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
	return r
}

// end stops the server and returns what Run said.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done = nil
		return err
	case <-time.After(patience):
		t.Fatalf("the server does not stop; log:\n%s", r.log)
		return nil
	}
}

// call makes a request as the administrator.
func (r *running) call(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	status, answer, err := r.try(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func (r *running) try(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	q, err := http.NewRequestWithContext(ctx, method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	q.SetBasicAuth("admin", config.DefaultPassword)
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

func (r *running) mustCall(t *testing.T, method, path, body string, want int) string {
	t.Helper()
	status, answer := r.call(t, method, path, body)
	if status != want {
		t.Fatalf("%s %s: %d, want %d: %s\nlog:\n%s", method, path, status, want, answer, r.log)
	}
	return answer
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ready waits until the server says that it is: the store may take a moment to answer.
func (r *running) ready(t *testing.T) {
	t.Helper()
	eventually(t, "it is ready", func() bool {
		status, _ := r.call(t, "GET", "/health/ready", "")
		return status == http.StatusOK
	})
}

// healthy waits until the coordinator says that its store and its Redis are up.
func (r *running) healthy(t *testing.T) {
	t.Helper()
	eventually(t, "store and Redis are up", func() bool {
		status, health := r.call(t, "GET", "/coord/v1/monitoring/health", "")
		return status == http.StatusOK && strings.Contains(health, `"store":"UP","redis":"UP"`)
	})
}

// held is how many heartbeats the coordinator holds.
func (r *running) held(t *testing.T) int {
	t.Helper()
	n := 0
	for _, look := range r.coordinator.Look(t.Context()) {
		n += look.Held
	}
	return n
}

const (
	create = `{"initialShardCount":2,"requestedBy":"test"}`
	beat   = "/coord/v1/streams/orders/groups/billing/members/m/heartbeat"
)

// heartbeat is the body of a member's heartbeat.
func heartbeat(t *testing.T, change func(*protocol.Heartbeat)) string {
	t.Helper()
	q := protocol.Heartbeat{ProtocolVersion: 1, RequestID: "r", MemberID: "m", Incarnation: "i", Capacity: protocol.Capacity{MaxConcurrency: 1}}
	if change != nil {
		change(&q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func decode(t *testing.T, answer string) protocol.HeartbeatResponse {
	t.Helper()
	var r protocol.HeartbeatResponse
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return r
}

func TestStartAndStop(t *testing.T) {
	r := run(t, settings(t), Options{})
	r.ready(t)
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	joined := decode(t, r.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	if joined.Status != protocol.StatusOK || len(joined.Assignment.AssignedShards) != 2 {
		t.Errorf("joined as %+v", joined)
	}
	url := r.URL()
	if err := r.end(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, _, err := r.try(t.Context(), "GET", "/health/live", ""); err == nil {
		t.Errorf("%s answers after the end", url)
	}
	if log := r.log.String(); !strings.Contains(log, "coordinator listens") || !strings.Contains(log, "coordinator stopped") {
		t.Errorf("log:\n%s", log)
	}
}

// A heartbeat that is held when the server ends is answered, not cut off.
func TestHeldHeartbeatIsAnsweredAtTheEnd(t *testing.T) {
	const wait = 10 * time.Second // the longest there is
	r := run(t, settings(t, "coordinator.member-lease-ttl=1m"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	joined := decode(t, r.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	body := func(wait time.Duration) string {
		return heartbeat(t, func(q *protocol.Heartbeat) {
			q.MemberEpoch, q.MetadataVersion, q.OwnedShards, q.MaxWaitMs = joined.MemberEpoch, joined.MetadataVersion, protocol.Shards{0, 1}, wait.Milliseconds()
		})
	}
	// Once more at once, so that the held one has nothing new to tell.
	r.mustCall(t, "POST", beat, body(0), 200)
	type result struct {
		status int
		answer string
		err    error
		took   time.Duration
	}
	held := make(chan result, 1)
	go func() {
		start := time.Now()
		status, answer, err := r.try(context.Background(), "POST", beat, body(wait))
		held <- result{status, answer, err, time.Since(start)}
	}()
	eventually(t, "the heartbeat arrived and is held", func() bool {
		select {
		case got := <-held:
			t.Fatalf("it was not held: %+v", got)
		default:
		}
		return r.held(t) == 1
	})
	if err := r.end(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	got := <-held
	if got.err != nil || got.status != 200 || got.took >= wait {
		t.Errorf("the held heartbeat: %+v", got)
	}
	if s := decode(t, got.answer).Status; s != protocol.StatusOK && s != protocol.StatusRetry {
		t.Errorf("it was answered %s", got.answer)
	}
}

// What outlasts the shutdown timeout is cut off, and Run says so.
func TestShutdownTimeout(t *testing.T) {
	r := run(t, settings(t, "server.shutdown-timeout=100ms"), Options{})
	// A request whose body never ends.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n", beat); err != nil {
		t.Fatal(err)
	}
	// The server asks for the body, so the handler is reading it.
	if _, err := conn.Read(make([]byte, 25)); err != nil {
		t.Fatal(err)
	}
	err = r.end(t)
	if err == nil || !strings.Contains(err.Error(), "server.shutdown-timeout (100ms)") {
		t.Errorf("Run: %v", err)
	}
}

func TestAddressInUse(t *testing.T) {
	r := run(t, settings(t), Options{})
	cfg := settings(t)
	cfg.Server.Address = strings.TrimPrefix(r.URL(), "http://")
	if _, err := New(t.Context(), cfg, Options{Logger: r.log.logger()}); err == nil || !strings.Contains(err.Error(), "server.address") {
		t.Errorf("New: %v", err)
	}
}

// Groups and streams outlive the coordinator when the store does.
func TestPortsOfOnesOwn(t *testing.T) {
	ports := service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)}
	first := run(t, settings(t), Options{Ports: ports})
	first.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	if err := first.end(t); err != nil {
		t.Fatal(err)
	}
	second := run(t, settings(t), Options{Ports: ports})
	second.mustCall(t, "GET", "/coord/v1/streams/orders", "", 200)
}

func TestEventLoopOff(t *testing.T) {
	r := run(t, settings(t, "coordinator.loop.enabled=false"), Options{})
	r.mustCall(t, "GET", "/health/live", "", 200)
	eventually(t, "it is logged", func() bool { return strings.Contains(r.log.String(), "coordinator.loop.enabled") })
}

// certificate makes a certificate for 127.0.0.1 and writes both files.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, text := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

func TestTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	r := run(t, settings(t, "server.tls.cert-file="+certFile, "server.tls.key-file="+keyFile), Options{})
	if !strings.HasPrefix(r.URL(), "https://") {
		t.Fatalf("URL %s", r.URL())
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/health/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("status %d %v", response.StatusCode, err)
	}
}

func TestTLSFilesThatDoNotFit(t *testing.T) {
	certFile, _, _ := certificate(t)
	_, err := New(t.Context(), settings(t, "server.tls.cert-file="+certFile, "server.tls.key-file="+certFile), Options{})
	if err == nil || !strings.Contains(err.Error(), "server.tls") {
		t.Errorf("New: %v", err)
	}
}

func TestRedisURL(t *testing.T) {
	cases := []struct {
		redis config.Redis
		want  string
	}{
		{config.Redis{URL: "redis://u@h:1/2", Host: "other", Port: 3}, "redis://u@h:1/2"},
		{config.Redis{Host: "h", Port: 6379}, "redis://h:6379/0"},
		{config.Redis{Host: "::1", Port: 1, Database: 3}, "redis://[::1]:1/3"},
		{config.Redis{Host: "h", Port: 1, SSL: true}, "rediss://h:1/0"},
	}
	for _, c := range cases {
		if got := redisURL(&c.redis); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestRedisTLSFiles(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	got, err := redisTLS(&config.Redis{TLS: config.RedisTLS{CAFile: certFile, CertFile: certFile, KeyFile: keyFile}})
	if err != nil || got.RootCAs == nil || len(got.Certificates) != 1 {
		t.Errorf("got %+v %v", got, err)
	}
	if got, err := redisTLS(&config.Redis{URL: "rediss://x"}); got != nil || err != nil {
		t.Errorf("no files gave %+v %v", got, err)
	}
	if _, err := redisTLS(&config.Redis{TLS: config.RedisTLS{CAFile: keyFile}}); err == nil {
		t.Error("a key was taken for a certificate")
	}
}

func TestRedisKeepsEverything(t *testing.T) {
	redis := redistest.Start(t)
	first := run(t, settings(t, "coordinator.redis.url="+redis.URL), Options{})
	first.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	joined := decode(t, first.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	if err := first.end(t); err != nil {
		t.Fatal(err)
	}
	second := run(t, settings(t, "coordinator.redis.url="+redis.URL), Options{})
	again := decode(t, second.mustCall(t, "POST", beat, heartbeat(t, func(q *protocol.Heartbeat) {
		q.MemberEpoch, q.MetadataVersion, q.OwnedShards = joined.MemberEpoch, joined.MetadataVersion, protocol.Shards{0, 1}
	}), 200))
	if again.Status != protocol.StatusOK || again.MemberEpoch != joined.MemberEpoch || len(again.Assignment.AssignedShards) != 2 {
		t.Errorf("after the restart the member was answered %+v", again)
	}
	second.healthy(t)
}

// A Redis that goes away makes the coordinator DOWN and heartbeats RETRY; when it
// is back everything goes on.
func TestRedisAwayAndBack(t *testing.T) {
	const lease = 2 * time.Second // for which the group keeps still afterwards
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	r := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.loop.tick-interval=100ms",
		"coordinator.heartbeat-interval=300ms", "coordinator.member-lease-ttl="+lease.String(), "coordinator.rebalance-timeout=5s"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	renewed := time.Now() // the lease ends no sooner than lease after it
	joined := decode(t, r.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	life, stopped := "i", ""
	// steady is the heartbeat of a member that owns what the last answer gave it.
	steady := func(last protocol.HeartbeatResponse) string {
		return heartbeat(t, func(q *protocol.Heartbeat) {
			q.Incarnation, q.StoppedIncarnation = life, stopped
			q.MemberEpoch, q.MetadataVersion = last.MemberEpoch, last.MetadataVersion
			for _, s := range last.Assignment.AssignedShards {
				q.OwnedShards = append(q.OwnedShards, s.Shard)
			}
		})
	}
	redis.Stop()
	eventually(t, "the outage is seen", func() bool {
		status, _ := r.call(t, "GET", "/health/ready", "")
		return status == 503
	})
	if got := decode(t, r.mustCall(t, "POST", beat, steady(joined), 200)); got.Status != protocol.StatusRetry || got.MemberEpoch != joined.MemberEpoch {
		t.Errorf("while Redis was away the member was answered %+v", got)
	}
	if status, answer := r.call(t, "GET", "/coord/v1/streams/orders", ""); status != 503 || !strings.Contains(answer, "STORE_UNAVAILABLE") {
		t.Errorf("while Redis was away a read was answered %d %s", status, answer)
	}
	redis.Start()
	last := joined
	eventually(t, "the member goes on", func() bool {
		sent := time.Now()
		got := decode(t, r.mustCall(t, "POST", beat, steady(last), 200))
		switch {
		case got.Status.RenewsLease():
			last, renewed = got, sent
		case got.Status == protocol.StatusRetry:
		case time.Since(renewed) < lease:
			t.Fatalf("the member is told %+v, and its lease is not over", got)
		default:
			// It stood still for as long as a lease, and joins again.
			life, stopped, last = life+"i", life, protocol.HeartbeatResponse{}
		}
		return got.Status == protocol.StatusOK && len(got.Assignment.AssignedShards) == 2
	})
	r.ready(t)
}

func TestRedisThatComesLate(t *testing.T) {
	redis := redistest.New(t)
	log := new(logBuffer)
	type result struct {
		server *Server
		err    error
	}
	started := make(chan result, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg := settings(t, "coordinator.redis.url="+redis.URL)
	go func() {
		s, err := New(ctx, cfg, Options{Logger: log.logger()})
		started <- result{s, err}
	}()
	eventually(t, "it is waited for", func() bool { return strings.Contains(log.String(), "a server still cannot be reached") })
	redis.Start()
	got := <-started
	if got.err != nil {
		t.Fatal(got.err)
	}
	said := ""
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "a server cannot be reached yet") {
			continue
		}
		_, reason, _ := strings.Cut(line, "err=")
		if reason == said {
			t.Errorf("the log says twice in a row that it was %s\n%s", reason, log)
		}
		said = reason
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log does not say why it is waited for:\n%s", log)
	}
	stop()
	if err := got.server.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A Redis that is behind something else, which takes connections and breaks them off
// while it is not there.
func TestRedisThatComesLateBehindAProxy(t *testing.T) {
	redis := redistest.New(t)
	proxy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	log := new(logBuffer)
	started := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := settings(t, "coordinator.redis.url="+redis.URL)
	go func() {
		s, err := New(ctx, cfg, Options{Logger: log.logger()})
		if err == nil {
			stop()
			err = s.Run(ctx)
		}
		started <- err
	}()
	eventually(t, "it is waited for", func() bool {
		select {
		case err := <-started:
			t.Fatalf("it was not waited for: %v", err)
		default:
		}
		return strings.Contains(log.String(), "a server cannot be reached yet")
	})
	_ = proxy.Close()
	refusing.Wait()
	redis.Start()
	if err := <-started; err != nil {
		t.Error(err)
	}
}

func TestWaitForRedisEndsWithTheContext(t *testing.T) {
	redis := redistest.New(t)
	log := new(logBuffer)
	ctx, stop := context.WithCancelCause(t.Context())
	cfg := settings(t, "coordinator.redis.url="+redis.URL)
	done := make(chan error, 1)
	go func() {
		_, err := New(ctx, cfg, Options{Logger: log.logger()})
		done <- err
	}()
	eventually(t, "it is waited for", func() bool { return strings.Contains(log.String(), "a server cannot be reached yet") })
	enough := errors.New("enough")
	stop(enough)
	if err := <-done; !errors.Is(err, enough) {
		t.Errorf("New: %v", err)
	}
}

// A Redis that answers and refuses us is not waited for.
func TestWrongRedisPassword(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "right")
	for _, password := range []string{"", "canary-wrong"} {
		_, err := New(t.Context(), settings(t, "coordinator.redis.url="+redis.URL, "coordinator.redis.password="+password), Options{})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("New: %v", err)
		}
	}
	r := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.redis.password=right"), Options{})
	r.ready(t)
}

// Streams on a Cluster, with groups and streams in memory, on a server, or there too.
func TestStreamsOnCluster(t *testing.T) {
	addrs := redistest.StartCluster(t, 3)
	metadata := redistest.Start(t)
	cluster := redistest.ClusterClient(t, addrs)
	for name, pairs := range map[string][]string{
		"metadata in memory":   {"coordinator.store.type=memory", "coordinator.redis.addresses=" + strings.Join(addrs, ",")},
		"metadata there too":   {"coordinator.redis.addresses=" + addrs[2]},
		"metadata on a server": {"coordinator.redis.url=" + metadata.URL, "coordinator.streams.redis.addresses=" + addrs[1]},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, settings(t, pairs...), Options{})
			r.mustCall(t, "POST", "/coord/v1/streams/orders", `{"initialShardCount":12,"requestedBy":"test"}`, 201)
			r.mustCall(t, "POST", beat, heartbeat(t, nil), 200)
			for i := range 12 {
				key := fmt.Sprintf("orders:%d", i)
				if groups, err := cluster.XInfoGroups(t.Context(), key).Result(); err != nil || len(groups) != 1 {
					t.Errorf("%s: groups %v, %v", key, groups, err)
				}
			}
			r.healthy(t)
			for i := range 12 {
				if err := cluster.Del(t.Context(), fmt.Sprintf("orders:%d", i)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.end(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Cluster taken for a server, and the reverse, end the start at once.
func TestRedisOfAnotherKind(t *testing.T) {
	addrs, server := redistest.StartCluster(t, 1), redistest.Start(t)
	for _, pairs := range [][]string{
		{"coordinator.redis.url=redis://" + addrs[0]},
		{"coordinator.redis.url=" + server.URL, "coordinator.streams.redis.addresses=" + server.Addr},
	} {
		key := strings.TrimSuffix(strings.TrimSuffix(strings.SplitN(pairs[len(pairs)-1], "=", 2)[0], ".url"), ".addresses")
		_, err := New(t.Context(), settings(t, pairs...), Options{})
		if err == nil || !strings.Contains(err.Error(), "part of a Redis Cluster") || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%q: %v", pairs, err)
		}
	}
}

func TestDeclaredStreams(t *testing.T) {
	redis := redistest.Start(t)
	cfg := settings(t, "coordinator.redis.url="+redis.URL)
	cfg.Coordinator.Streams.Declared = []config.Declared{
		{Prefix: "orders", Shards: 3, Groups: []string{"billing", "shipping"}, GroupStart: "latest", AutoCreateGroups: false},
		{Prefix: "pay", Shards: 1, GroupStart: "earliest", AutoCreateGroups: true},
	}
	made := func(r *running) bool {
		status, orders := r.call(t, "GET", "/coord/v1/streams/orders", "")
		payStatus, _ := r.call(t, "GET", "/coord/v1/streams/pay", "")
		return status == 200 && payStatus == 200 && strings.Contains(orders, `"groups":["billing","shipping"],"provisioned":true`) &&
			strings.Contains(orders, `"shardCount":3`) && strings.Contains(orders, `"autoCreateGroups":false,"groupStart":"latest"`)
	}
	first := run(t, cfg, Options{})
	// A Redis that stands still may keep the first attempt from working.
	if !made(first) && !strings.Contains(first.log.String(), "declared stream cannot be made yet") {
		t.Errorf("they are not there when the server answers:\n%s", first.log)
	}
	eventually(t, "they are made", func() bool { return made(first) })
	if err := first.end(t); err != nil {
		t.Fatal(err)
	}
	// Declared otherwise, they stay as they are, but for what is missing.
	cfg.Coordinator.Streams.Declared[0].Shards = 5
	cfg.Coordinator.Streams.Declared[0].Groups = []string{"audit"}
	second := run(t, cfg, Options{})
	eventually(t, "the group that was missing is made", func() bool {
		status, orders := second.call(t, "GET", "/coord/v1/streams/orders", "")
		if status == 200 && !strings.Contains(orders, `"shardCount":3`) {
			t.Errorf("the stream is %s", orders)
		}
		return strings.Contains(orders, `"groups":["audit","billing","shipping"]`)
	})
	if !strings.Contains(second.log.String(), "another shard count") {
		t.Errorf("the other count is not logged:\n%s", second.log)
	}
}
