package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// object is a JSON object whose members stay in order.
type object []pair

type pair struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		var value bytes.Buffer
		e := json.NewEncoder(&value)
		e.SetEscapeHTML(false)
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(bytes.TrimSpace(value.Bytes()))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// comments are what the sources say about types, fields and the values of types.
type comments struct {
	// text maps Type and Type.Field to their comments.
	text map[string]string
	// values lists the constants of a type of strings.
	values map[string][]string
}

// readComments reads the comments of this package and of the one with the types of
// the wire.
func readComments(t *testing.T) *comments {
	t.Helper()
	c := &comments{text: map[string]string{}, values: map[string][]string{}}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", reflect.TypeFor[protocol.Stream]().PkgPath())
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	for _, folder := range []string{".", strings.TrimSpace(string(dir))} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".go" && !strings.HasSuffix(e.Name(), "_test.go") {
				file, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(folder, e.Name()), nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				c.read(file)
			}
		}
	}
	return c
}

func (c *comments) read(file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				doc := spec.Doc
				if doc == nil {
					doc = decl.Doc
				}
				c.note(spec.Name.Name, doc)
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							c.note(spec.Name.Name+"."+name.Name, f.Doc)
						}
					}
				}
			case *ast.ValueSpec:
				kind, typed := spec.Type.(*ast.Ident)
				if !typed || decl.Tok != gotoken.CONST {
					continue
				}
				for _, v := range spec.Values {
					if text, ok := v.(*ast.BasicLit); ok && text.Kind == gotoken.STRING {
						value, _ := strconv.Unquote(text.Value)
						c.values[kind.Name] = append(c.values[kind.Name], value)
					}
				}
			}
		}
	}
}

func (c *comments) note(name string, doc *ast.CommentGroup) {
	if doc != nil {
		c.text[name] = strings.Join(strings.Fields(doc.Text()), " ")
	}
}

// schemas makes the schemas of types, each named type once.
type schemas struct {
	comments *comments
	// request is set while types of bodies are described that callers send: there a
	// field may be left out that has a meaning by default, and a list may be null.
	request bool
	named   map[string]object
	order   []string
}

// schemaNames are the types that are called otherwise in the description.
func schemaName(t reflect.Type) string {
	name := t.Name()
	if rest, row := strings.CutPrefix(name, "grafana"); row {
		return "Grafana" + rest + "Row"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// nullable lets a value be null as well.
func nullable(o object) object {
	for i, m := range o {
		if m.name == "type" {
			o[i].value = []any{m.value, "null"}
			return o
		}
	}
	return object{{"anyOf", []any{o, object{{"type", "null"}}}}}
}

// shardIDs are lists of shards: objects in answers, and bare numbers too in requests.
func (s *schemas) shardIDs() object {
	item := s.of(reflect.TypeFor[protocol.ShardID]())
	if s.request {
		item = object{{"anyOf", []any{item, object{{"type", "integer"}}}}}
	}
	list := object{{"type", "array"}, {"items", item}}
	if s.request {
		return nullable(list)
	}
	return list
}

// written are the types that write themselves, in the form that they write.
var written map[reflect.Type]func(*schemas) object

func init() {
	written = map[reflect.Type]func(*schemas) object{
		reflect.TypeFor[time.Time](): func(*schemas) object {
			return object{{"type", "string"}, {"format", "date-time"}}
		},
		reflect.TypeFor[isoDuration](): func(*schemas) object {
			return object{{"type", "string"}, {"format", "duration"}}
		},
		reflect.TypeFor[protocol.Shards](): func(s *schemas) object { return s.shardIDs() },
		reflect.TypeFor[protocol.RevokingShard](): func(s *schemas) object {
			return s.row(object{
				{"state", s.of(reflect.TypeFor[protocol.RevokeState]())},
				{"inFlight", object{{"type", "integer"}, {"minimum", 0}}},
				{"ackedAt", object{{"type", []any{"string", "null"}}}},
			}, "state")
		},
		reflect.TypeFor[protocol.ShardProgress](): func(s *schemas) object {
			text := object{{"type", []any{"string", "null"}}}
			return s.row(object{
				{"streamKey", object{{"type", "string"}}}, {"lastDeliveredId", text}, {"lastAckedId", text},
				{"pendingCount", object{{"type", "integer"}, {"format", "int64"}}}, {"updatedAt", text},
				{"missing", object{{"type", "boolean"}}},
			})
		},
	}
}

// row is an object about one shard. In requests the shard may also stand flat in it.
func (s *schemas) row(properties object, required ...string) object {
	shard := s.of(reflect.TypeFor[protocol.ShardID]())
	properties = append(object{{"shard", shard}}, properties...)
	if s.request {
		properties = append(properties, pair{"shardIndex", object{{"type", "integer"}}})
		return object{{"type", "object"}, {"properties", properties}, {"required", append([]string{}, required...)}}
	}
	return object{
		{"type", "object"}, {"properties", properties}, {"required", append([]string{"shard"}, required...)}, {"additionalProperties", false},
	}
}

// of returns the schema of a type, or a reference to it.
func (s *schemas) of(t reflect.Type) object {
	if write, own := written[t]; own {
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
			return write(s)
		}
		return s.name(t, func() object { return write(s) })
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.String:
		if values := s.comments.values[t.Name()]; len(values) > 0 {
			return s.name(t, func() object { return object{{"type", "string"}, {"enum", values}} })
		}
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int32:
		return object{{"type", "integer"}}
	case reflect.Int64:
		return object{{"type", "integer"}, {"format", "int64"}}
	case reflect.Float64:
		return object{{"type", "number"}}
	case reflect.Slice:
		list := object{{"type", "array"}, {"items", s.of(t.Elem())}}
		if s.request {
			return nullable(list)
		}
		return list
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(t.Elem())}}
	case reflect.Struct:
		return s.name(t, func() object { return s.structure(t) })
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

// name describes a type once.
func (s *schemas) name(t reflect.Type, describe func() object) object {
	name := schemaName(t)
	if s.request && (t == reflect.TypeFor[protocol.RevokingShard]() || t == reflect.TypeFor[protocol.ShardProgress]()) {
		name += "Report"
	}
	if _, known := s.named[name]; !known {
		s.named[name] = object{}
		o := describe()
		if text := s.comments.text[t.Name()]; text != "" {
			text = strings.TrimPrefix(onTheWire(t, text), t.Name()+" ")
			text = strings.ToUpper(text[:1]) + text[1:]
			o = append(object{{"description", text}}, o...)
		}
		s.named[name] = o
		s.order = append(s.order, name)
	}
	return ref(name)
}

// needed are fields that must be sent although they are pointers, for the sake of
// telling a missing one from zero.
var needed = map[string]bool{"Scale.TargetShardCount": true, "GiveUp.Shards": true}

// spared are fields that may be left out.
var spared = map[string]bool{"credentials.Username": true, "credentials.Password": true}

func (s *schemas) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.fields(t, &properties, &required)
	o := object{{"type", "object"}, {"properties", properties}, {"required", required}}
	if !s.request {
		o = append(o, pair{"additionalProperties", false})
	}
	return o
}

func (s *schemas) fields(t reflect.Type, properties *object, required *[]string) {
	for f := range fieldsOf(t) {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "":
			s.fields(f.Type, properties, required)
			continue
		case tag == "" || name == "-":
			panic(fmt.Sprintf("%s.%s has no name on the wire", t, f.Name))
		}
		property := s.of(f.Type)
		if text := s.comments.text[t.Name()+"."+f.Name]; text != "" {
			text = onTheWire(t, text)
			property = append(object{{"description", text}}, property...)
		}
		*properties = append(*properties, pair{name, property})
		optional := strings.Contains(options, "omitempty")
		if s.request {
			k := f.Type.Kind()
			optional = (optional || k == reflect.Pointer || k == reflect.Slice || k == reflect.Bool || spared[t.Name()+"."+f.Name]) && !needed[t.Name()+"."+f.Name]
		}
		if !optional {
			*required = append(*required, name)
		}
	}
}

// goWords are the words of comments that a reader of the wire calls otherwise.
var goWords = map[string]string{
	"EpochJoin": "0", "EpochLeave": "-1", "RevokeRevoked": "REVOKED", "StartEarliest": "earliest", "StartLatest": "latest",
	"CauseNone": "NONE", "MaxExplanations": fmt.Sprint(protocol.MaxExplanations), "nil": "null",
}

// onTheWire replaces the names of Go in a comment by those of the wire.
func onTheWire(t reflect.Type, text string) string {
	names := maps.Clone(goWords)
	if t.Kind() == reflect.Struct {
		for f := range fieldsOf(t) {
			names[f.Name], _, _ = strings.Cut(f.Tag.Get("json"), ",")
		}
	}
	text = strings.ReplaceAll(text, "must be Version.", fmt.Sprintf("must be %d.", protocol.Version))
	text = strings.ReplaceAll(text, "see MaxWait", "a third of the lease and 10 s")
	return regexp.MustCompile(`\b\w+\b`).ReplaceAllStringFunc(text, func(word string) string {
		if wire := names[word]; wire != "" {
			return wire
		}
		return word
	})
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && !yield(f) {
				return
			}
		}
	}
}
