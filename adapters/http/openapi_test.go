package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

var update = flag.Bool("update", false, "write docs/openapi.json and the table in the documentation anew")

// TestOpenAPIIsCurrent holds the description that is served to the routes, the types
// and their comments.
func TestOpenAPIIsCurrent(t *testing.T) {
	built := buildOpenAPI(t)
	if *update && !t.Failed() {
		if err := os.WriteFile("docs/openapi.json", built, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if served, err := os.ReadFile("docs/openapi.json"); err != nil || !bytes.Equal(served, built) {
		t.Errorf("docs/openapi.json is not what the routes and types say (%v): run go test ./... -run TestOpenAPIIsCurrent -update, and look at the difference", err)
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	a := &api{config: Config{}.withDefaults()}
	described := map[string]bool{}
	ids := map[string]bool{}
	for i := range operations {
		o := &operations[i]
		described[o.method+" "+o.describedPath()] = true
		if ids[o.id] || o.id == "" || o.summary == "" || o.tag == "" {
			t.Errorf("%s %s has the id %q, the tag %q and the summary %q", o.method, o.path, o.id, o.tag, o.summary)
		}
		ids[o.id] = true
	}
	for _, r := range a.routes() {
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(r.path, "{$1}")
		if !described[r.method+" "+path] {
			t.Errorf("%s %s is not described: add it to operations", r.method, path)
		}
	}
}

// TestOpenAPIIsSound looks at what a reader of OpenAPI 3.1 relies on.
func TestOpenAPIIsSound(t *testing.T) {
	d := readDescription(t, mustRead("docs/openapi.json"))
	if d.at("openapi") != "3.1.1" || d.at("info", "title") == nil || d.at("info", "version") == nil {
		t.Error("it does not say what it is")
	}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				if _, found := d.resolve(ref); !found {
					t.Errorf("%s: %s leads nowhere", at, ref)
				}
			}
			if v["nullable"] != nil {
				t.Errorf("%s: nullable is of another version", at)
			}
			for name, one := range v {
				walk(one, at+"/"+name)
			}
		case []any:
			for i, one := range v {
				walk(one, fmt.Sprintf("%s/%d", at, i))
			}
		}
	}
	walk(d.doc, "")
	paths, _ := d.at("paths").(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method, operation := range methods {
			o, _ := operation.(map[string]any)
			var named []string
			list, _ := o["parameters"].([]any)
			for _, one := range list {
				p, _ := one.(map[string]any)
				if name, _ := p["name"].(string); p["in"] == "path" {
					named = append(named, name)
				}
			}
			var inPath []string
			for _, found := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				inPath = append(inPath, found[1])
			}
			if !slices.Equal(named, inPath) {
				t.Errorf("%s %s: parameters %q", method, path, named)
			}
		}
	}
}

func TestDescriptionIsServed(t *testing.T) {
	h := newAPI(t, &fake{}, func(c *Config) { c.BasePath = "/other" })
	for _, path := range []string{"/openapi.json", "/v3/api-docs"} {
		w := request{method: "GET", path: path}.send(t, h)
		d := readDescription(t, w.Body.Bytes())
		if w.Code != 200 || d.at("paths", "/other/streams", "get") == nil || d.at("paths", "/health/live", "get") == nil || strings.Contains(w.Body.String(), `"/coord/v1/`) {
			t.Errorf("%s answered %d, with other paths than those that are served", path, w.Code)
		}
		if again := (request{method: "GET", path: path, header: map[string]string{"If-None-Match": w.Header().Get("ETag")}}).send(t, h); again.Code != http.StatusNotModified {
			t.Errorf("%s, asked for again, answered %d", path, again.Code)
		}
	}
	root := request{method: "GET", path: "/openapi.json"}.send(t, newAPI(t, &fake{}, func(c *Config) { c.BasePath = "/" }))
	if d := readDescription(t, root.Body.Bytes()); d.at("paths", "/streams", "get") == nil {
		t.Error("below the root there is no /streams")
	}
}

// TestPageLoadsNothingFromOutside: the page has all that it needs, and its policy says
// so to the browser.
func TestPageLoadsNothingFromOutside(t *testing.T) {
	for _, path := range []string{"/docs", "/scalar"} {
		w := request{method: "GET", path: path}.send(t, newAPI(t, &fake{}))
		page := w.Body.String()
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s answered %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		for _, from := range regexp.MustCompile(`(?i)(?:src|href)="[^"]*"|url\([^)]*\)|@import[^;]*|https?://[^\s"']+`).FindAllString(page, -1) {
			if from != `href="openapi.json"` {
				t.Errorf("%s loads %s", path, from)
			}
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, tag := range []string{"style", "script"} {
			inside := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
			if len(inside) != 1 || !strings.Contains(policy, tag+"-src "+sourceHash([]byte(inside[0][1]))) {
				t.Errorf("%s: the policy %q does not allow the %s of the page", path, policy, tag)
			}
		}
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}

// stage is a coordinator with a model of Redis, and the API on it.
type stage struct {
	t     *testing.T
	h     http.Handler
	c     *service.Coordinator
	redis *porttest.Model
	d     *description
	// seen are the statuses that each operation has answered with.
	seen map[string][]int
}

func newStage(t *testing.T, change ...func(*Config)) *stage {
	t.Helper()
	return newStageOn(t, memstore.New(), change...)
}

func newStageOn(t *testing.T, store port.Store, change ...func(*Config)) *stage {
	t.Helper()
	s := &stage{t: t, redis: new(porttest.Model), d: readDescription(t, mustRead("docs/openapi.json")), seen: map[string][]int{}}
	var err error
	s.c, err = service.New(service.Config{ID: "c-1", Logger: slog.New(slog.DiscardHandler)}, service.Ports{
		Store: store, Mutex: new(memstore.Mutex), Streams: s.redis, Inspector: s.redis,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := s.c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		loop.Wait()
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := s.c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	s.h = newAPI(t, s.c, change...)
	return s
}

// call makes a call and holds the answer to the description.
func (s *stage) call(method, path, user, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	w := request{method: method, path: path, auth: as(user), body: body}.send(s.t, s.h)
	s.fits(method, path, body, w)
	return w
}

// ok makes a call as the administrator that has to succeed.
func (s *stage) ok(method, path, body string) []byte {
	s.t.Helper()
	w := s.call(method, path, "admin", body)
	if w.Code >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// fits holds an answer to the description of its operation, and the body of a request
// that was taken to that of its.
func (s *stage) fits(method, path, body string, w *httptest.ResponseRecorder) {
	s.t.Helper()
	template, o := s.operation(method, path)
	if o == nil {
		s.t.Errorf("%s %s is not described", method, path)
		return
	}
	name := method + " " + template
	s.seen[name] = append(s.seen[name], w.Code)
	responses, _ := o["responses"].(map[string]any)
	answer, described := responses[fmt.Sprint(w.Code)].(map[string]any)
	if !described {
		s.t.Errorf("%s answered %d, which is not described: %s", name, w.Code, w.Body)
		return
	}
	if content, is := answer["content"].(map[string]any); is {
		if json, is := content["application/json"].(map[string]any); is {
			for _, complaint := range s.d.validate(json["schema"], w.Body.Bytes()) {
				s.t.Errorf("%s: the answer %s", name, complaint)
			}
		}
	}
	if w.Code < 300 && body != "" {
		request, _ := o["requestBody"].(map[string]any)
		content, _ := request["content"].(map[string]any)
		json, _ := content["application/json"].(map[string]any)
		for _, complaint := range s.d.validate(json["schema"], []byte(body)) {
			s.t.Errorf("%s took a body that %s", name, complaint)
		}
	}
}

// operation finds the description of a call.
func (s *stage) operation(method, target string) (string, map[string]any) {
	target, _, _ = strings.Cut(target, "?")
	paths, _ := s.d.at("paths").(map[string]any)
	for template, item := range paths {
		pattern := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + "$"
		if o, there := item.(map[string]any)[strings.ToLower(method)].(map[string]any); there && regexp.MustCompile(pattern).MatchString(target) {
			return template, o
		}
	}
	return "", nil
}

const (
	apiBase  = "/coord/v1"
	monitors = apiBase + "/monitoring" + "/streams/orders/groups/billing"
	order    = `{"requestedBy":"ops","reason":"test"}`
)

// beat sends a heartbeat.
func (s *stage) beat(member string, epoch protocol.Epoch, version int64, owned ...int) protocol.HeartbeatResponse {
	s.t.Helper()
	list, progress := []string{}, []string{}
	for _, shard := range owned {
		list = append(list, fmt.Sprintf(`{"shardIndex":%d}`, shard))
		progress = append(progress, fmt.Sprintf(`{"shard":{"shardIndex":%d},"streamKey":"orders:%d","lastDeliveredId":"1-0","lastAckedId":null,"pendingCount":1,"updatedAt":"2026-01-02T03:04:05Z"}`, shard, shard))
	}
	body := fmt.Sprintf(`{"protocolVersion":1,"requestId":"r","memberId":%q,"memberEpoch":%d,"metadataVersion":%d,"incarnation":%q,"runtimeConsumerCapacity":{"runtimeMaxConcurrency":2,"availableConcurrency":1},"ownedShards":[%s],"revokingShards":null,"shardProgress":[%s]}`,
		member, epoch, version, member+"-1", strings.Join(list, ","), strings.Join(progress, ","))
	var r protocol.HeartbeatResponse
	if err := json.Unmarshal(s.ok("POST", groupPath+"/members/"+member+"/heartbeat", body), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// TestAnswersFitTheDescription makes every call there is on a coordinator with members
// and records, and holds requests and answers to the description, refusals included.
func TestAnswersFitTheDescription(t *testing.T) {
	s := newStage(t)
	s.ok("POST", apiBase+"/streams/orders", createBody)
	s.ok("POST", groupPath, `{"requestedBy":"ops"}`)
	joined := s.beat("m", 0, 0)
	s.beat("m", joined.MemberEpoch, joined.MetadataVersion, 0, 1, 2, 3)
	for i := range 40 {
		s.redis.Add(fmt.Sprintf("orders:%d", i%4), fmt.Sprintf("17000000000%02d-0", i), "payload", fmt.Sprint(i), "bytes", "\xff\x00")
	}
	s.redis.Deliver("orders:0", "billing", 3)
	s.redis.Acknowledge("orders:0", "billing", 1)

	for _, path := range []string{
		"/openapi.json", "/v3/api-docs", "/docs", "/scalar", "/health/live", "/health/ready",
		"/actuator/health", "/actuator/health/liveness", "/actuator/health/readiness",
		apiBase + "/streams", apiBase + "/streams/orders", groupPath, groupPath + "/producer-routing", groupPath + "/timings",
		apiBase + "/monitoring/session", apiBase + "/monitoring/health", apiBase + "/monitoring/compatibility", apiBase + "/monitoring/groups",
		monitors, monitors + "/members", monitors + "/assignments", monitors + "/consumption", monitors + "/offsets", monitors + "/backlog", monitors + "/explain",
		monitors + "/shards/0/messages", monitors + "/shards/0/messages?direction=FORWARD&limit=3", monitors + "/shards/0/explain", monitors + "/shards/3/explain",
		apiBase + "/monitoring/grafana/groups", apiBase + "/monitoring/grafana/options/streams",
		apiBase + "/monitoring/grafana/options/consumer-groups", apiBase + "/monitoring/grafana/options/consumer-groups?streamPrefix=orders",
	} {
		s.ok("GET", path, "")
	}
	for _, path := range []string{"/options/shards", "/members", "/shards", "/assignments", "/messages"} {
		for _, q := range []string{"?streamPrefix=orders&consumerGroup=billing", "?streamPrefix=&consumerGroup=", "?streamPrefix=orders&consumerGroup=", "?streamPrefix=%20&consumerGroup=billing"} {
			s.ok("GET", apiBase+"/monitoring/grafana"+path+q, "")
		}
	}
	for _, q := range []string{"&shardIndex=all&limit=7", "&shardIndex=2&direction=FORWARD", "&recordId=1700000000004-0", "&shardIndex=.*&cursor=__rsc_last__&limit=7", "&shardIndex=$__all&cursor=__rsc_tail__:1&limit=7"} {
		s.ok("GET", apiBase+"/monitoring/grafana/messages?streamPrefix=orders&consumerGroup=billing"+q, "")
	}
	s.ok("PATCH", groupPath+"/timings", `{"memberLeaseTtlMs":20000,"requestedBy":"ops","reason":"test"}`)
	s.ok("POST", groupPath+"/members/m/drain", order)
	s.ok("GET", monitors+"/shards/0/explain", "")
	s.ok("GET", monitors+"/members", "")
	s.ok("DELETE", groupPath+"/members/m/drain", order)
	s.ok("POST", apiBase+"/repair/index", order)
	s.ok("POST", apiBase+loginRoute, `{"username":"admin","password":"does:all"}`)
	reshardingCalls(s)

	s.refusals()
	s.ok("DELETE", groupPath, deleteBody)
	s.ok("DELETE", apiBase+"/streams/orders", deleteBody)

	for i := range operations {
		name := operations[i].method + " " + operations[i].describedPath()
		if !slices.ContainsFunc(s.seen[name], func(status int) bool { return status == operations[i].status }) {
			t.Errorf("%s has not succeeded: %v", name, s.seen[name])
		}
	}
}

// refusals makes calls that are refused, on every route.
func (s *stage) refusals() {
	s.t.Helper()
	a := &api{config: Config{}.withDefaults()}
	fill := strings.NewReplacer(":streamPrefix", "orders", ":consumerGroup", "billing", ":memberId", "m", ":shardIndex", "0", ":reshardingId", "reshard-none")
	lost := strings.NewReplacer(":streamPrefix", "none", ":consumerGroup", "none", ":memberId", "none", ":shardIndex", "0", ":reshardingId", "reshard-none")
	bad := strings.NewReplacer(":streamPrefix", "a%7Bb", ":consumerGroup", "%00", ":memberId", "%00", ":shardIndex", "x", ":reshardingId", "%00")
	want := func(what string, w *httptest.ResponseRecorder, statuses ...int) {
		s.t.Helper()
		if !slices.Contains(statuses, w.Code) {
			s.t.Errorf("%s: status %d, want %v: %s", what, w.Code, statuses, w.Body)
		}
	}
	for _, r := range a.routes() {
		name := r.method + " " + r.path
		if r.needs != open {
			want(name+" of nobody", s.call(r.method, fill.Replace(r.path), "", ""), 401)
			outsider := "member"
			if r.needs&mayBeMember != 0 {
				outsider = ""
			}
			if outsider != "" {
				want(name+" of a member", s.call(r.method, fill.Replace(r.path), outsider, ""), 403)
			}
		}
		if strings.Contains(r.path, ":") {
			want(name+" with bad names", s.call(r.method, bad.Replace(r.path), "admin", order), 400)
		}
		if slices.Contains([]string{"members", "shards", "assignments", "messages"}, strings.TrimPrefix(r.path, apiBase+grafanaRoute+"/")) {
			want(name+" without names", s.call(r.method, r.path, "admin", ""), 400)
			want(name+" of nothing", s.call(r.method, r.path+"?streamPrefix=none&consumerGroup=none", "admin", ""), 404)
		}
		if i := slices.IndexFunc(operations, func(o operation) bool {
			return o.method == r.method && strings.HasSuffix(r.path, o.path) && o.body != nil
		}); i >= 0 {
			for _, body := range []string{"", "{", "[]", `"x"`, `{"requestedBy":7}`} {
				if operations[i].bodyOptional && (body == "" || strings.HasPrefix(body, `{"`)) {
					continue
				}
				want(name+" with the body "+body, s.call(r.method, fill.Replace(r.path), "admin", body), 400)
			}
			w := request{method: r.method, path: fill.Replace(r.path), auth: as("admin"), body: "x=y", header: map[string]string{"Content-Type": "text/plain"}}.send(s.t, s.h)
			s.fits(r.method, fill.Replace(r.path), "", w)
			want(name+" with a form", w, 415)
			w = request{method: r.method, path: fill.Replace(r.path), auth: as("admin"), body: `{"x":"` + strings.Repeat("x", 2<<20) + `"}`}.send(s.t, s.h)
			s.fits(r.method, fill.Replace(r.path), "", w)
			want(name+" with a large body", w, 413)
			continue
		}
		if strings.Contains(r.path, ":") && r.method == http.MethodGet {
			want(name+" of nothing", s.call(r.method, lost.Replace(r.path), "admin", ""), 404)
		}
	}
	for method, calls := range map[string][]string{
		"POST":   {groupPath, apiBase + "/streams/orders"},
		"DELETE": {apiBase + "/streams/orders"},
	} {
		for _, path := range calls {
			want(method+" "+path, s.call(method, path, "admin", map[string]string{"POST": createBody, "DELETE": deleteBody}[method]), 409)
		}
	}
	for _, path := range []string{groupPath + "/members/none/drain", apiBase + "/streams/none/groups/none/members/m/drain"} {
		want(path, s.call("POST", path, "admin", order), 404)
	}
	for _, q := range []string{"direction=UP", "limit=x", "cursor=x", "cursor=all:0=1-0,x"} {
		want(q, s.call("GET", monitors+"/shards/0/messages?"+q, "admin", ""), 400)
	}
	want("a shard beyond the last", s.call("GET", monitors+"/shards/4/messages", "admin", ""), 400)
	want("a shard beyond the last", s.call("GET", monitors+"/shards/4/explain", "admin", ""), 400)
	want("a limit beyond the largest", s.call("GET", monitors+"/shards/0/messages?limit=100000", "admin", ""), 200)
	want("timings that cannot be", s.call("PATCH", groupPath+"/timings", "admin", `{"memberLeaseTtlMs":10,"requestedBy":"ops","reason":"x"}`), 400)

	s.redis.SetAway(fmt.Errorf("connection refused to 10.9.8.7"))
	defer s.redis.SetAway(nil)
	for _, path := range []string{"/offsets", "/shards/0/messages"} {
		w := s.call("GET", monitors+path, "admin", "")
		want(path+" without Redis", w, 503)
		if strings.Contains(w.Body.String(), "10.9.8.7") {
			s.t.Errorf("%s tells where Redis is: %s", path, w.Body)
		}
	}
	want("explain without Redis", s.call("GET", monitors+"/shards/0/explain", "admin", ""), 200)
	want("rows without Redis", s.call("GET", apiBase+"/monitoring/grafana/groups", "admin", ""), 200)
	want("rows without Redis", s.call("GET", apiBase+"/monitoring/grafana/shards?streamPrefix=orders&consumerGroup=billing", "admin", ""), 200)
}
