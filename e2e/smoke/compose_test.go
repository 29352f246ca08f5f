package smoke

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
)

// service is a service of docker-compose.yaml, as far as it is looked at here.
type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Healthcheck struct {
		Test    []string `yaml:"test"`
		Disable bool     `yaml:"disable"`
	} `yaml:"healthcheck"`
	ReadOnly bool `yaml:"read_only"`
}

// interpolation is ${NAME:-default} in the compose file.
var interpolation = regexp.MustCompile(`\$\{(\w+):-([^}]*)\}`)

// composed reads docker-compose.yaml as somebody gets it who sets no variables, and
// as values say otherwise.
func composed(tb testing.TB, values map[string]string) map[string]service {
	tb.Helper()
	text := interpolation.ReplaceAllStringFunc(string(read(tb, "docker-compose.yaml")), func(found string) string {
		parts := interpolation.FindStringSubmatch(found)
		if value, set := values[parts[1]]; set {
			return value
		}
		return parts[2]
	})
	var file struct {
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		tb.Fatalf("docker-compose.yaml: %v", err)
	}
	if len(file.Services) == 0 {
		tb.Fatal("docker-compose.yaml has no services: the test looks for something else")
	}
	return file.Services
}

// Whoever starts the stack opens nothing to others, gets versions that are named,
// and mounts files that are there.
func TestComposeFile(t *testing.T) {
	services := composed(t, nil)
	for _, name := range []string{"redis", "coordinator-1", "coordinator-2", "balancer", "consumer-1", "consumer-2", "producer", "prometheus", "grafana"} {
		if _, there := services[name]; !there {
			t.Errorf("there is no service %s", name)
		}
	}
	for name, s := range services {
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			t.Errorf("%s: the image %q has no version", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to others than this machine", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, ".") {
				continue // a volume with a name
			}
			if _, err := os.Stat(filepath.Join(root, from)); err != nil {
				t.Errorf("%s: mounts what is not there: %v", name, err)
			}
			if !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s: may write to %s", name, from)
			}
		}
		if strings.HasPrefix(s.Image, "redis-stream-coordinator:") && !s.ReadOnly {
			t.Errorf("%s: may write to its own files", name)
		}
	}
}

// What Grafana is told agrees with where the compose file puts things, and with
// what the dashboards ask for.
func TestGrafanaIsProvisioned(t *testing.T) {
	grafana := composed(t, nil)["grafana"]
	mounted := strings.Join(grafana.Volumes, " ")
	var sources struct {
		Datasources []struct {
			Type, UID, URL string
			JSON           struct {
				Interval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	if err := yaml.Unmarshal(read(t, "grafana/provisioning/datasources/prometheus.yaml"), &sources); err != nil {
		t.Fatal(err)
	}
	var prometheus struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal(read(t, prometheusFile), &prometheus); err != nil {
		t.Fatal(err)
	}
	for _, s := range sources.Datasources {
		variable := strings.Trim(s.URL, "${}")
		if s.Type != "prometheus" || grafana.Environment[variable] != "http://prometheus:9090" {
			t.Errorf("the data source %s (%s) is at %s, which is %q", s.UID, s.Type, s.URL, grafana.Environment[variable])
		}
		if s.JSON.Interval != prometheus.Global.Interval {
			t.Errorf("the data source says it is scraped every %s, and it is every %s", s.JSON.Interval, prometheus.Global.Interval)
		}
	}
	var providers struct {
		Providers []struct {
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	if err := yaml.Unmarshal(read(t, "grafana/provisioning/dashboards/dashboards.yaml"), &providers); err != nil {
		t.Fatal(err)
	}
	if len(providers.Providers) != 1 || len(sources.Datasources) != 1 {
		t.Fatal("there is to be one data source and one folder of dashboards")
	}
	if path := providers.Providers[0].Options.Path; !strings.Contains(mounted, "./grafana/dashboards:"+path+":ro") {
		t.Errorf("dashboards are looked for in %s, and %s is mounted", path, mounted)
	}
	home := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if _, err := os.Stat(filepath.Join(root, "grafana", "dashboards", filepath.Base(home))); err != nil {
		t.Errorf("the first page: %v", err)
	}
}

// The image is built from all modules that the command is built from.
func TestDockerfileCopiesEveryModule(t *testing.T) {
	dockerfile := string(read(t, "Dockerfile"))
	mod, err := modfile.Parse("go.mod", read(t, "coordinator/go.mod"), nil)
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{"coordinator"}
	for _, r := range mod.Replace {
		folders = append(folders, strings.TrimPrefix(r.New.Path, "../"))
	}
	for _, folder := range folders {
		if !strings.Contains(dockerfile, "\nCOPY "+folder+"/go.mod ") {
			t.Errorf("the Dockerfile does not copy %s/go.mod before it fetches modules", folder)
		}
		top, _, _ := strings.Cut(folder, "/")
		if !strings.Contains(dockerfile, "\nCOPY "+top+" "+top+"\n") {
			t.Errorf("the Dockerfile does not copy %s", top)
		}
		if !strings.Contains(string(read(t, ".dockerignore")), "\n!"+top+"\n") {
			t.Errorf(".dockerignore keeps %s from the build", top)
		}
	}
}
