package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// about is what the page says first.
const about = "The HTTP API of the coordinator of sharded Redis Streams. Bodies are JSON. Every refusal has the same form: " +
	"status, a stable errorCode, and a message that says what to do. Names in paths are percent-encoded; an encoded slash is refused."

// describedPath is the path of an operation as it is served by default.
func (o *operation) describedPath() string {
	path := o.path
	if !o.absolute {
		path = DefaultBasePath + path
	}
	return regexp.MustCompile(`:(\w+)`).ReplaceAllString(path, "{$1}")
}

// routeOf finds the route of an operation.
func routeOf(list []route, o *operation) (route, bool) {
	path := o.path
	if !o.absolute {
		path = DefaultBasePath + path
	}
	i := slices.IndexFunc(list, func(r route) bool { return r.method == o.method && r.path == path })
	if i < 0 {
		return route{}, false
	}
	return list[i], true
}

// asksCoordinator reports whether an operation can meet a store that is away.
func (o *operation) asksCoordinator() bool {
	return o.answer != nil && !o.absolute && len(o.also) == 0 && o.tag != tagAccess &&
		!slices.Contains([]string{"getMonitoringSession", "getCoordinatorCompatibility", "sendConsumerHeartbeat"}, o.id)
}

// refusals are the errors that an operation may answer, by status.
func (o *operation) refusals(r *route) map[int][]*protocol.Error {
	all := map[int][]*protocol.Error{}
	add := func(errs ...*protocol.Error) {
		for _, e := range errs {
			status := statuses[e.Code]
			if !slices.Contains(all[status], e) {
				all[status] = append(all[status], e)
			}
		}
	}
	if strings.Contains(o.path, ":") || len(o.query) > 0 || o.body != nil {
		add(protocol.ErrInvalidRequest)
	}
	if r.needs != open || o.id == "sendConsumerHeartbeat" {
		add(protocol.ErrUnauthorized, protocol.ErrForbidden, protocol.ErrRateLimit)
	}
	if o.body != nil {
		add(protocol.ErrTooLarge, errMedia)
	}
	if r.changes() {
		add(protocol.ErrRateLimit)
	}
	add(o.errors...)
	if o.asksCoordinator() {
		add(protocol.ErrStoreUnavailable, protocol.ErrCorrupt, errFailed)
	}
	return all
}

// buildOpenAPI makes the description.
func buildOpenAPI(t *testing.T) []byte {
	t.Helper()
	a := &api{config: Config{AuthenticateMembers: true}.withDefaults()}
	list := a.routes()
	s := &schemas{comments: readComments(t), named: map[string]object{}}
	paths := map[string]object{}
	built := make([]object, len(operations))
	// The answers first: a type that goes both ways is described by what we send.
	for i := range operations {
		o := &operations[i]
		r, there := routeOf(list, o)
		if !there {
			t.Errorf("%s %s is described and is no route", o.method, o.path)
			continue
		}
		built[i] = s.operation(o, &r)
	}
	s.request = true
	for i := range operations {
		o := &operations[i]
		if o.body != nil && built[i] != nil {
			content := object{{"application/json", object{{"schema", s.of(typeOf(o.body))}}}}
			built[i] = append(built[i], pair{"requestBody", object{{"required", !o.bodyOptional}, {"content", content}}})
		}
		path := o.describedPath()
		paths[path] = append(paths[path], pair{strings.ToLower(o.method), built[i]})
	}
	ordered := object{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		ordered = append(ordered, pair{path, paths[path]})
	}
	named := object{}
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		named = append(named, pair{name, s.named[name]})
	}
	tagList := make([]object, len(tags))
	for i, tag := range tags {
		tagList[i] = object{{"name", tag.name}, {"description", tag.description}}
	}
	doc := object{
		{"openapi", "3.1.1"},
		{"jsonSchemaDialect", "https://json-schema.org/draft/2020-12/schema"},
		{"info", object{
			{"title", "Redis Stream Coordinator"}, {"version", fmt.Sprintf("0.%d.0", protocol.Version)}, {"description", about},
			{"license", object{{"name", "Apache 2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}, {"description", "This coordinator."}}}},
		{"tags", tagList},
		{"paths", ordered},
		{"components", object{
			{"securitySchemes", object{
				{"basic", object{{"type", "http"}, {"scheme", "basic"}}},
				{"token", object{{"type", "http"}, {"scheme", "bearer"}}},
			}},
			{"schemas", named},
		}},
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// operation describes an operation but for its body.
func (s *schemas) operation(o *operation, r *route) object {
	out := object{{"operationId", o.id}, {"tags", []string{o.tag}}, {"summary", o.summary}}
	if o.description != "" {
		out = append(out, pair{"description", o.description})
	}
	switch {
	case o.id == "sendConsumerHeartbeat":
		out = append(out, pair{"x-role", r.needs.String()}, pair{"security", []object{{}, {{"basic", []string{}}}, {{"token", []string{}}}}})
	case r.needs == open:
		out = append(out, pair{"security", []object{}})
	default:
		out = append(out, pair{"x-role", r.needs.String()}, pair{"security", []object{{{"basic", []string{}}}, {{"token", []string{}}}}})
	}
	if parameters := s.parameters(o); len(parameters) > 0 {
		out = append(out, pair{"parameters", parameters})
	}
	return append(out, pair{"responses", s.responses(o, r)})
}

func (s *schemas) parameters(o *operation) []object {
	var list []object
	for _, found := range regexp.MustCompile(`:(\w+)`).FindAllStringSubmatch(o.path, -1) {
		kind := object{{"type", "string"}}
		if found[1] == "shardIndex" {
			kind = object{{"type", "integer"}, {"minimum", 0}}
		}
		list = append(list, object{{"name", found[1]}, {"in", "path"}, {"required", true}, {"description", parameterTexts[found[1]]}, {"schema", kind}})
	}
	for _, p := range o.query {
		kind := object{{"type", "string"}}
		switch {
		case p.integer:
			kind = object{{"type", "integer"}}
		case p.enum != nil:
			kind = append(kind, pair{"enum", p.enum})
		}
		list = append(list, object{{"name", p.name}, {"in", "query"}, {"required", p.required}, {"description", p.description}, {"schema", kind}})
	}
	return list
}

func (s *schemas) responses(o *operation, r *route) object {
	success := object{{"description", "Done."}}
	switch {
	case o.answer != nil:
		success = append(success, pair{"content", object{{"application/json", object{{"schema", s.of(typeOf(o.answer))}}}}})
	case strings.HasPrefix(o.summary, "As /docs") || o.id == "docs":
		success = append(success, pair{"content", object{{"text/html", object{{"schema", object{{"type", "string"}}}}}}})
	default:
		success = append(success, pair{"content", object{{"application/json", object{{"schema", object{{"type", "object"}}}}}}})
	}
	byStatus := map[int]object{o.status: success}
	for _, status := range o.also {
		byStatus[status] = success
	}
	if o.id == "getProducerRoutingMetadata" {
		byStatus[http.StatusNotModified] = object{{"description", "It is as the caller has it."}}
	}
	for status, errs := range o.refusals(r) {
		var codes []string
		for _, e := range errs {
			codes = append(codes, e.Code)
		}
		schema := s.of(typeOf(protocol.ErrorBody{}))
		if o.id == "sendConsumerHeartbeat" && status == http.StatusForbidden {
			schema = object{{"type", "object"}, {"required", []string{"status", "errorCode", "message", "assignment"}}}
		}
		slices.Sort(codes)
		byStatus[status] = object{{"description", strings.Join(codes, ", ")}, {"content", object{{"application/json", object{{"schema", schema}}}}}}
	}
	out := object{}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		out = append(out, pair{fmt.Sprint(status), byStatus[status]})
	}
	return out
}
