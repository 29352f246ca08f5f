package faultkit

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Options say how a server is started.
type Options struct {
	// Durable keeps what was written over a Kill and Start; without it the server
	// comes back empty.
	Durable bool
	// Proxied puts a Proxy in front of every node, and makes a cluster name the
	// proxies to its clients. A cluster then has no replicas, since those would
	// follow their masters through the proxies too.
	Proxied bool
	// Gated puts a Gate in front of every node instead, and makes a cluster name the
	// gates to everybody. Users are the Redis users that Server.Bar knows; their
	// password is their name, and they may do anything.
	Gated bool
	Users []string
	// Args are further arguments of the server.
	Args []string
}

// Server is a running server: one node, or a cluster of them. It ends with its
// test.
type Server struct {
	Kind Kind
	// Nodes are its processes; in a cluster the first three were masters at the
	// start, and the others their replicas in the same order.
	Nodes []*Node
	// Client reaches all of it, past the proxies. It follows redirections, and repeats
	// nothing by itself otherwise.
	Client redis.UniversalClient
	// Proxies are in front of the nodes, in their order; none without Proxied.
	Proxies []*Proxy
	// Gates are the same with Gated.
	Gates []*Gate

	tb testing.TB
}

// Start starts a server of the kind, or skips the test where there is none.
func (k Kind) Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	k.Need(tb)
	program, err := k.path()
	if err != nil {
		tb.Fatal(err)
	}
	args := slices.Clone(o.Args)
	if o.Durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	} else {
		args = append(args, "--appendonly", "no")
	}
	for _, user := range o.Users {
		args = append(args, "--user", user, "on", ">"+user, "~*", "&*", "+@all")
	}
	s := &Server{Kind: k, tb: tb}
	if k.Clustered {
		s.form(program, args, o)
	} else {
		s.Nodes = []*Node{startNode(tb, program, false, args...)}
		switch {
		case o.Proxied:
			s.Proxies = []*Proxy{NewProxy(tb, s.Nodes[0].Addr)}
		case o.Gated:
			s.Gates = []*Gate{NewGate(tb, s.Nodes[0].Addr)}
		}
	}
	options := redis.UniversalOptions{
		Addrs: s.nodeAddrs(), IsClusterMode: k.Clustered, MaxRetries: -1,
		DialTimeout: answerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
	}
	if k.Clustered && len(s.fronts()) > 0 {
		// The nodes name what is in front of them; this client is led past it.
		options.Dialer = s.pastFronts()
	}
	s.Client = redis.NewUniversalClient(&options)
	tb.Cleanup(func() { _ = s.Client.Close() })
	return s
}

// UniversalOptions say how consumers and producers reach the server, through the
// proxies if there are some.
func (s *Server) UniversalOptions() redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: s.Addrs(), IsClusterMode: s.Kind.Clustered}
}

// Addrs are the addresses that clients are given.
func (s *Server) Addrs() []string {
	if fronts := s.fronts(); len(fronts) > 0 {
		return fronts
	}
	return s.nodeAddrs()
}

// fronts are the addresses of what is in front of the nodes, in their order; none
// where nothing is.
func (s *Server) fronts() []string {
	var addrs []string
	for _, p := range s.Proxies {
		addrs = append(addrs, p.Addr)
	}
	for _, g := range s.Gates {
		addrs = append(addrs, g.Addr)
	}
	return addrs
}

// Bar cuts a user off from all nodes, see Gate.Bar; Open ends that.
func (s *Server) Bar(user string, silent bool) {
	for _, g := range s.Gates {
		g.Bar(user, silent)
	}
}

// Open lets a user through again after Bar.
func (s *Server) Open(user string) {
	for _, g := range s.Gates {
		g.Open(user)
	}
}

func (s *Server) nodeAddrs() []string {
	var addrs []string
	for _, n := range s.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// HushRedis keeps the Redis client from writing a line for each dial that fails, which
// is what suites are about. TestMain calls it.
func HushRedis() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// ctx is for cleanups too, where the test's own has ended.
func (s *Server) ctx() context.Context { return context.WithoutCancel(s.tb.Context()) }

// FlushAll empties every master.
func (s *Server) FlushAll() {
	s.tb.Helper()
	for _, n := range s.Masters() {
		must(s.tb, n.Client.FlushAll(s.ctx()).Err())
	}
}

// Kill ends all nodes as kill -9 does.
func (s *Server) Kill() {
	for _, n := range s.Nodes {
		n.Kill()
	}
}

// Restart starts all nodes again after Kill and waits until they answer as a
// whole.
func (s *Server) Restart() {
	s.tb.Helper()
	for _, n := range s.Nodes {
		n.Start()
	}
	if s.Kind.Clustered {
		s.AwaitWhole()
	}
}

// Pause freezes all nodes, Resume lets them go on.
func (s *Server) Pause() {
	s.tb.Helper()
	for _, n := range s.Nodes {
		n.Pause()
	}
}

// Resume lets all nodes go on after Pause.
func (s *Server) Resume() {
	s.tb.Helper()
	for _, n := range s.Nodes {
		n.Resume()
	}
}

// Masters are the nodes that take writes at the moment, as they say themselves.
func (s *Server) Masters() []*Node {
	s.tb.Helper()
	if !s.Kind.Clustered {
		return s.Nodes
	}
	var masters []*Node
	for _, n := range s.Nodes {
		if n.Runs() && n.master(s.ctx()) {
			masters = append(masters, n)
		}
	}
	return masters
}

// Calls adds up Node.Calls of the masters.
func (s *Server) Calls() map[string]int {
	s.tb.Helper()
	sum := map[string]int{}
	for _, n := range s.Masters() {
		for name, count := range n.Calls() {
			sum[name] += count
		}
	}
	return sum
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
