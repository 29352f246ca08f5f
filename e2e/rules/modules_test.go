package rules

import (
	"fmt"
	"go/version"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	modulepath "golang.org/x/mod/module"
)

// libraries are the modules that applications import. They ask for the oldest
// Go and the oldest Redis client that serve, so that nobody must upgrade for us.
var libraries = []string{"core", "consumer", "producer"}

const (
	programGo = "1.26.0"
	// libraryGo may also be written with .0, which is what the go command makes of
	// it when a dependency writes it so; any later patch release would exclude users.
	libraryGo = "1.25"
	// libraryRedis is the line of go-redis that libraries stay on: 9.23 demands
	// Go 1.26.
	libraryRedis = "v9.22."
	// unpublished is the version of a module that will never have a tag.
	unpublished = "v0.0.0"
)

// checkModule holds one go.mod to the rules of the repository. all are the
// modules of the repository, this one included.
func checkModule(m module, all []module) []string {
	complaints := slices.Concat(checkHead(m), checkRequirements(m), checkReplacements(m, all))
	for i := range complaints {
		complaints[i] = m.folder + "/go.mod: " + complaints[i]
	}
	return complaints
}

// checkHead looks at the module's path and at what it asks of Go.
func checkHead(m module) []string {
	var complaints []string
	if m.mod.Module == nil || m.mod.Module.Mod.Path != prefix+m.folder {
		complaints = append(complaints, "the module path must be "+prefix+m.folder)
	}
	accepted := []string{programGo}
	if slices.Contains(libraries, m.folder) {
		accepted = []string{libraryGo, libraryGo + ".0"}
	}
	if m.mod.Go == nil || !slices.Contains(accepted, m.mod.Go.Version) {
		complaints = append(complaints, "the go line must be go "+accepted[0])
	}
	if m.mod.Toolchain != nil {
		complaints = append(complaints, "a toolchain line decides for others which Go they use")
	}
	return complaints
}

// checkRequirements looks at what the module makes its users download.
func checkRequirements(m module) []string {
	var complaints []string
	rule, _ := ruleFor(m.folder)
	library := slices.Contains(libraries, m.folder)
	inE2E := below(m.folder, "e2e")
	for _, require := range m.mod.Require {
		name, v := require.Mod.Path, require.Mod.Version
		_, ours := strings.CutPrefix(name, prefix)
		isBelow := func(framework string) bool { return below(name, framework) }
		switch {
		case m.folder == "core":
			complaints = append(complaints, "core requires "+name+": it lives on the standard library")
		case ours && !inE2E && (v == unpublished || modulepath.IsPseudoVersion(v)):
			complaints = append(complaints, fmt.Sprintf("requires %s %s: users get that version, so it must be one that is or will be tagged", name, v))
		case library && name == goRedis && !strings.HasPrefix(v, libraryRedis):
			complaints = append(complaints, fmt.Sprintf("requires go-redis %s, libraries stay on %sx", v, libraryRedis))
		case !rule.frameworks && !inE2E && slices.ContainsFunc(frameworks, isBelow):
			complaints = append(complaints, "carries "+name+": frameworks stay in coordinator and adapters/http")
		}
	}
	return complaints
}

// checkReplacements sees to it that the module builds alone: each module of ours
// that it reaches comes from its folder.
func checkReplacements(m module, all []module) []string {
	var complaints []string
	replaced := map[string]string{}
	for _, r := range m.mod.Replace {
		folder, ours := strings.CutPrefix(r.Old.Path, prefix)
		if !ours {
			complaints = append(complaints, "replaces "+r.Old.Path+": users would not get the replacement")
			continue
		}
		want := relative(m.folder, folder)
		if r.New.Path != want || r.New.Version != "" || r.Old.Version != "" {
			complaints = append(complaints, fmt.Sprintf("the replacement of %s must read: replace %s => %s", r.Old.Path, r.Old.Path, want))
		}
		replaced[folder] = r.New.Path
	}
	for _, folder := range reached(m, all) {
		if _, ok := replaced[folder]; !ok {
			complaints = append(complaints, fmt.Sprintf("reaches %s, so it needs: replace %s => %s", prefix+folder, prefix+folder, relative(m.folder, folder)))
		}
	}
	return complaints
}

// relative is the path from one folder of the repository to another, as a
// replace line writes it.
func relative(from, to string) string {
	// Both are clean and relative to the same root, so there is always an answer.
	rel, err := filepath.Rel(filepath.FromSlash(from), filepath.FromSlash(to))
	if err != nil {
		return to
	}
	rel = filepath.ToSlash(rel)
	if !strings.HasPrefix(rel, "../") {
		rel = "./" + rel
	}
	return rel
}

// reached lists the folders of the modules of ours that m requires, or that what
// it requires requires, in order.
func reached(m module, all []module) []string {
	var found []string
	var visit func(m module)
	visit = func(m module) {
		for _, require := range m.mod.Require {
			folder, ours := strings.CutPrefix(require.Mod.Path, prefix)
			if !ours || slices.Contains(found, folder) {
				continue
			}
			found = append(found, folder)
			if i := slices.IndexFunc(all, func(o module) bool { return o.folder == folder }); i >= 0 {
				visit(all[i])
			}
		}
	}
	visit(m)
	slices.Sort(found)
	return found
}

// checkWorkspace compares go.work with the modules there are.
func checkWorkspace(work *modfile.WorkFile, all []module) []string {
	var complaints []string
	var used []string
	for _, use := range work.Use {
		used = append(used, path.Clean(use.Path))
	}
	for _, m := range all {
		if !slices.Contains(used, m.folder) {
			complaints = append(complaints, "go.work: does not use ./"+m.folder)
		}
		if m.mod.Go != nil && work.Go != nil && version.Compare("go"+work.Go.Version, "go"+m.mod.Go.Version) < 0 {
			complaints = append(complaints, fmt.Sprintf("go.work: go %s is older than what %s asks for", work.Go.Version, m.folder))
		}
	}
	return complaints
}

func TestEachModuleFileFollowsTheRules(t *testing.T) {
	all := modules(t, trackedFiles(t))
	for _, m := range all {
		for _, complaint := range checkModule(m, all) {
			t.Error(complaint)
		}
	}
	work, err := modfile.ParseWork("go.work", read(t, "go.work"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range checkWorkspace(work, all) {
		t.Error(complaint)
	}
}

func TestCheckModule(t *testing.T) {
	const (
		require = "require " + prefix
		replace = "replace " + prefix
	)
	head := func(folder, goVersion string) string {
		return "module " + prefix + folder + "\ngo " + goVersion + "\n"
	}
	all := []module{
		parseModule(t, "core", head("core", "1.25")),
		parseModule(t, "consumer", head("consumer", "1.25")+require+"core v0.1.0\n"),
	}
	tests := []struct {
		name, folder, content string
		complaints            []string
	}{
		{"core", "core", head("core", "1.25"), nil},
		{"core with a requirement", "core", head("core", "1.25") + "require golang.org/x/sync v0.25.0\n", []string{"standard library"}},
		{"another path", "producer", head("publisher", "1.25"), []string{"module path must be"}},
		{"a library that asks for too much", "producer", head("producer", "1.26.0"), []string{"go line must be go 1.25"}},
		{"a library with .0", "producer", head("producer", "1.25.0"), nil},
		{"a library that asks for a patch release", "producer", head("producer", "1.25.3"), []string{"go line must be go 1.25"}},
		{"a program that asks for less", "coordinator", head("coordinator", "1.25"), []string{"go line must be go 1.26.0"}},
		{"a toolchain", "coordinator", head("coordinator", "1.26.0") + "toolchain go1.26.8\n", []string{"toolchain"}},
		{
			"complete", "producer",
			head("producer", "1.25") + require + "core v0.1.0\nrequire " + goRedis + " v9.22.1\n" + replace + "core => ../core\n",
			nil,
		},
		{"no replace", "producer", head("producer", "1.25") + require + "core v0.1.0\n", []string{"needs: replace " + prefix + "core => ../core"}},
		{
			"no replace for what is reached through another", "coordinator",
			head("coordinator", "1.26.0") + require + "consumer v0.1.0\n" + replace + "consumer => ../consumer\n",
			[]string{"reaches " + prefix + "core"},
		},
		{
			"a replace to elsewhere", "adapters/redis",
			head("adapters/redis", "1.26.0") + require + "core v0.1.0\n" + replace + "core => ../core\n",
			[]string{"=> ../../core"},
		},
		{
			"a replace for one version", "adapters/redis",
			head("adapters/redis", "1.26.0") + require + "core v0.1.0\n" + replace + "core v0.1.0 => ../../core\n",
			[]string{"must read: replace"},
		},
		{"a replace of somebody else's module", "coordinator", head("coordinator", "1.26.0") + "replace " + goRedis + " => ../go-redis\n", []string{"users would not get"}},
		{
			"a version without a tag", "producer",
			head("producer", "1.25") + require + "core v0.0.0\n" + replace + "core => ../core\n",
			[]string{"will be tagged"},
		},
		{
			"a version without a tag in e2e", "e2e",
			head("e2e", "1.26.0") + require + "core v0.0.0\n" + replace + "core => ../core\n",
			nil,
		},
		{"a newer Redis client in a library", "consumer", head("consumer", "1.25") + "require " + goRedis + " v9.23.0\n", []string{"libraries stay on v9.22.x"}},
		{"a newer Redis client in an adapter", "adapters/redis", head("adapters/redis", "1.26.0") + "require " + goRedis + " v9.23.0\n", nil},
		{
			"a framework behind something else", "consumer",
			head("consumer", "1.25") + "require go.opentelemetry.io/otel v1.47.0 // indirect\n",
			[]string{"carries go.opentelemetry.io/otel"},
		},
		{"a framework where it belongs", "adapters/http", head("adapters/http", "1.26.0") + "require github.com/gin-gonic/gin v1.12.0\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, checkModule(parseModule(t, tt.folder, tt.content), all), tt.complaints)
		})
	}
}

func TestCheckWorkspace(t *testing.T) {
	all := []module{
		parseModule(t, "core", "module "+prefix+"core\ngo 1.25\n"),
		parseModule(t, "e2e", "module "+prefix+"e2e\ngo 1.26.0\n"),
	}
	tests := []struct {
		name, content string
		complaints    []string
	}{
		{"complete", "go 1.26.0\nuse (\n\t./core\n\t./e2e\n)\n", nil},
		{"one is missing", "go 1.26.0\nuse ./e2e\n", []string{"does not use ./core"}},
		{"too old", "go 1.25\nuse (\n\t./core\n\t./e2e\n)\n", []string{"older than what e2e asks for"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			work, err := modfile.ParseWork("go.work", []byte(tt.content), nil)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, checkWorkspace(work, all), tt.complaints)
		})
	}
}
