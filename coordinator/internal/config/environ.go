package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ownPrefix is that of the environment variables that are settings.
const ownPrefix = "COORDINATOR_"

// documented are environment variables with names of their own. They count less
// than the file, which may place them as it likes.
var documented = map[string]string{
	"REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD": "coordinator.api.admin-password",
	"REDIS_STREAM_COORDINATOR_TOKEN_SECRET":   "coordinator.api.token-secret",
	"REDIS_STREAM_COORDINATOR_TOKEN_TTL":      "coordinator.api.token-ttl",
	"REDIS_URL":                               "coordinator.redis.url",
	"REDIS_PASSWORD":                          "coordinator.redis.password",
}

// maxListIndex bounds the index in names such as COORDINATOR_API_USERS_0_USERNAME.
const maxListIndex = 999

// serviceLink is the value of the variables that Kubernetes sets for each service
// of a namespace: beside a service called coordinator-redis, COORDINATOR_REDIS_PORT
// says tcp://10.0.0.7:6379.
var serviceLink = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// variableNames are the spellings of a key as an environment variable: dashes
// become underscores or are left out.
func variableNames(key string) []string {
	dots := strings.ReplaceAll(strings.ToUpper(key), ".", "_")
	return slices.Compact([]string{strings.ReplaceAll(dots, "-", "_"), strings.ReplaceAll(dots, "-", "")})
}

// variables maps environment variables to the settings they stand for.
var variables = func() map[string]setting {
	m := map[string]setting{}
	for _, s := range settings {
		if s.element == nil {
			for _, name := range variableNames(s.key) {
				m[name] = s
			}
		}
	}
	return m
}()

// listVariable is an environment variable for one field of one element.
type listVariable struct {
	list, field setting
	index       int
}

// findListVariable takes a name such as COORDINATOR_API_USERS_0_USERNAME apart.
func findListVariable(name string) (listVariable, bool) {
	for _, s := range settings {
		if s.element == nil {
			continue
		}
		for _, start := range variableNames(s.key) {
			rest, found := strings.CutPrefix(name, start+"_")
			if !found {
				continue
			}
			number, field, found := strings.Cut(rest, "_")
			index, err := strconv.Atoi(number)
			if !found || err != nil || index < 0 || index > maxListIndex {
				continue
			}
			for _, e := range s.element {
				if slices.Contains(variableNames(e.key), field) {
					return listVariable{s, e, index}, true
				}
			}
		}
	}
	return listVariable{}, false
}

// readDocumented returns what the variables with names of their own say.
func (l *loader) readDocumented() map[string]value {
	values := map[string]value{}
	for name, key := range documented {
		if text := l.environ[name]; text != "" {
			values[key] = value{raw: text, source: name}
		}
	}
	return values
}

// readEnviron returns what the environment says, and warns of names that look
// like settings and are none. A variable that is set to nothing counts as not
// set.
func (l *loader) readEnviron() map[string]value {
	values := map[string]value{}
	lists := map[string]map[int]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		text := l.environ[name]
		if text == "" {
			continue
		}
		if s, known := variables[name]; known {
			if serviceLink.MatchString(text) {
				l.warn("%s: is the address of a service that the container platform announces, not %s; ignored", name, s.key)
				continue
			}
			values[s.key] = value{raw: text, source: name}
			continue
		}
		if v, known := findListVariable(name); known {
			elements := lists[v.list.key]
			if elements == nil {
				elements = map[int]map[string]any{}
				lists[v.list.key] = elements
			}
			if elements[v.index] == nil {
				elements[v.index] = map[string]any{}
			}
			elements[v.index][v.field.key] = text
			continue
		}
		l.judgeVariable(name)
	}
	for key, elements := range lists {
		l.joinElements(key, elements, values)
	}
	return values
}

// joinElements makes a list of its elements' variables.
func (l *loader) joinElements(key string, elements map[int]map[string]any, values map[string]value) {
	start := variableNames(key)[0]
	list := make([]any, len(elements))
	for _, index := range slices.Sorted(maps.Keys(elements)) {
		if index >= len(list) {
			l.bad = append(l.bad, fmt.Errorf("%s_%d_…: the elements must be numbered from 0 without gaps", start, index))
			return
		}
		list[index] = elements[index]
	}
	values[key] = value{raw: list, source: start + "_…"}
}

// judgeVariable warns of a variable that is no setting, if it looks like one.
func (l *loader) judgeVariable(name string) {
	for _, r := range retired {
		if coversVariable(r.key, name) && (strings.HasPrefix(name, ownPrefix) || strings.HasPrefix(name, "SPRING_DATA_REDIS_")) {
			l.warn("%s: ignored; %s", name, r.says)
			return
		}
	}
	if strings.HasPrefix(name, ownPrefix) {
		l.warn("%s: no such setting; ignored", name)
	}
}

// coversVariable is covers for the name of an environment variable.
func coversVariable(entry, name string) bool {
	for _, spelled := range variableNames(entry) {
		if below, found := strings.CutSuffix(spelled, "_"); found && strings.HasPrefix(name, below+"_") || name == spelled {
			return true
		}
	}
	return false
}
