package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// stack are the services of docker-compose.yaml as processes. Where the file names
// a service with its port, an address of 127.0.0.1 takes its place; commands and
// settings stay as they are.
type stack struct {
	tb       testing.TB
	services map[string]service
	// places are what stands in the file and what takes its place here, in pairs.
	places []string
	// at are the addresses of the services that have one.
	at      map[string]string
	running map[string]*faultkit.Process
	// ended are the processes that ran before.
	ended []*faultkit.Process
}

// ports are where the services listen that others ask, as the compose file has it.
var ports = map[string]string{
	"redis": "6379", "coordinator-1": "8080", "coordinator-2": "8080", "balancer": "8080", "prometheus": "9090",
}

func newStack(tb testing.TB) *stack {
	tb.Helper()
	s := &stack{tb: tb, services: composed(tb, map[string]string{"RSC_RATE": "100"}), at: map[string]string{}, running: map[string]*faultkit.Process{}}
	for name, port := range ports {
		s.at[name] = faultkit.FreeAddr(tb)
		s.places = append(s.places, name+":"+port, s.at[name])
	}
	// The container listens on all its addresses, the process on one.
	s.places = append(s.places, "*:8080", s.at["balancer"])
	return s
}

// here replaces the names of services by where they are.
func (s *stack) here(text string) string { return strings.NewReplacer(s.places...).Replace(text) }

// environ are the settings of a service.
func (s *stack) environ(name string, more ...string) []string {
	list := more
	for _, key := range slices.Sorted(maps.Keys(s.services[name].Environment)) {
		list = append(list, key+"="+s.here(s.services[name].Environment[key]))
	}
	return list
}

// start starts a service that the file has.
func (s *stack) start(name string) {
	s.tb.Helper()
	command := slices.Clone(s.services[name].Command)
	for i := range command {
		command[i] = s.here(command[i])
	}
	switch {
	case name == "redis":
		host, port, _ := net.SplitHostPort(s.at[name])
		command = append(command, "--bind", host, "--port", port, "--dir", s.tb.TempDir())
		s.run(name, nil, command)
	case name == "balancer":
		command[len(command)-1] = s.path("compose/haproxy.cfg")
		s.run(name, s.environ(name), command)
	case name == "prometheus":
		s.run(name, nil, []string{
			"prometheus", "--config.file=" + s.scrapeConfig(), "--storage.tsdb.path=" + s.tb.TempDir(), "--web.listen-address=" + s.at[name],
		})
	case strings.HasPrefix(name, "coordinator"):
		// What the image says by itself.
		s.run(name, s.environ(name, "RSC_CONFIG="+s.path("coordinator/rsc.yaml"), "SERVER_ADDRESS="+s.at[name]), []string{rsctest.Program(s.tb), "server"})
	default:
		s.run(name, s.environ(name), append([]string{rsctest.Program(s.tb)}, command...))
	}
}

func (s *stack) run(name string, environ, command []string) {
	s.tb.Helper()
	if before := s.running[name]; before != nil {
		s.ended = append(s.ended, before)
	}
	s.running[name] = faultkit.Run(s.tb, name, environ, command[0], command[1:]...)
}

// path is a file of the repository.
func (s *stack) path(name string) string {
	s.tb.Helper()
	path, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		s.tb.Fatal(err)
	}
	return path
}

// scrapeConfig writes the configuration of Prometheus with the targets that are
// here, and looks as often as a short run needs. Rules are those of the repository.
func (s *stack) scrapeConfig() string {
	s.tb.Helper()
	folder := s.tb.TempDir()
	config := strings.NewReplacer(" 10s", " 1s", " 8s", " 1s", " 5s", " 1s", "localhost:9090", s.at["prometheus"]).Replace(s.here(string(read(s.tb, prometheusFile))))
	for name, content := range map[string][]byte{"prometheus.yml": []byte(config), "rules.yml": read(s.tb, rulesFile)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			s.tb.Fatal(err)
		}
	}
	return filepath.Join(folder, "prometheus.yml")
}

// await starts a service and waits until what asks it says that it is there.
func (s *stack) await(name string, there func() bool) {
	s.tb.Helper()
	s.start(name)
	eventually(s.tb, name+" answers", func() bool {
		if !s.running[name].Runs() {
			s.tb.Fatalf("%s has ended:\n%s", name, s.running[name].Log())
		}
		return there()
	})
}

// listens reports whether something takes connections at the address of a service.
func (s *stack) listens(name string) func() bool {
	return func() bool {
		ctx, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.at[name])
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
}

// healthy asks as the health check of a coordinator does.
func (s *stack) healthy(name string) func() bool {
	return func() bool {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.at[name]+"/health/ready", http.NoBody)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}
}

// up starts the whole stack in the order in which its parts wait for each other.
func (s *stack) up() {
	s.tb.Helper()
	s.await("redis", s.listens("redis"))
	for _, name := range []string{"coordinator-1", "coordinator-2", "balancer"} {
		s.await(name, s.healthy(name))
	}
	p := s.prometheus()
	s.await("prometheus", p.ready)
	for _, name := range []string{"consumer-1", "consumer-2", "producer"} {
		s.start(name)
	}
}

func (s *stack) prometheus() *prometheus {
	return &prometheus{tb: s.tb, url: "http://" + s.at["prometheus"]}
}

// stop ends a service in order and requires that it does so.
func (s *stack) stop(name string) {
	s.tb.Helper()
	s.running[name].Stop(patience)
}

// printed returns the ids of the records that the consumers have printed, with how
// often each was.
func (s *stack) printed() map[string]int {
	s.tb.Helper()
	ids := map[string]int{}
	all := slices.Clone(s.ended)
	for _, p := range s.running {
		all = append(all, p)
	}
	for _, p := range all {
		if !strings.HasPrefix(p.Name, "consumer") {
			continue
		}
		for line := range strings.Lines(p.Log()) {
			var r struct {
				ID     string            `json:"id"`
				Key    string            `json:"key"`
				Shard  json.Number       `json:"shard"`
				Values map[string]string `json:"values"`
			}
			// Its log stands there too, and the last line of one that was killed may
			// not be whole.
			if json.Unmarshal([]byte(line), &r) == nil && r.ID != "" && r.Values["payload"] != "" {
				ids[r.Shard.String()+"/"+r.ID]++
			}
		}
	}
	return ids
}

// warnings are what the command says about the settings of a service.
func (s *stack) warnings(name string) string {
	s.tb.Helper()
	var out bytes.Buffer
	check := faultkit.Run(s.tb, name+" settings", s.environ(name, "RSC_CONFIG="+s.path("coordinator/rsc.yaml")), rsctest.Program(s.tb), "server", "--print-config")
	if code := check.Wait(patience); code != 0 {
		s.tb.Errorf("%s: its settings are refused:\n%s", name, check.Log())
	}
	for line := range strings.Lines(check.Log()) {
		if strings.HasPrefix(line, "warning:") {
			out.WriteString(line)
		}
	}
	return out.String()
}
