package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// sentinels are all refusals of the package.
var sentinels = map[string]*Error{
	"ErrInvalidRequest": ErrInvalidRequest, "ErrGroupExists": ErrGroupExists, "ErrStreamExists": ErrStreamExists, "ErrGroupNotFound": ErrGroupNotFound,
	"ErrStreamNotFound": ErrStreamNotFound, "ErrShardCountMismatch": ErrShardCountMismatch, "ErrGroupHasMembers": ErrGroupHasMembers,
	"ErrMigrationActive": ErrMigrationActive, "ErrMigrationNotFound": ErrMigrationNotFound, "ErrRollbackNotAllowed": ErrRollbackNotAllowed,
	"ErrStreamHasGroups": ErrStreamHasGroups, "ErrLimit": ErrLimit, "ErrConflict": ErrConflict, "ErrStoreUnavailable": ErrStoreUnavailable,
	"ErrRedisNotConfigured": ErrRedisNotConfigured, "ErrProvisioning": ErrProvisioning, "ErrMutexUnavailable": ErrMutexUnavailable,
	"ErrMemberNotFound": ErrMemberNotFound, "ErrRedisUnavailable": ErrRedisUnavailable, "ErrRateLimit": ErrRateLimit,
	"ErrTerminating": ErrTerminating, "ErrCorrupt": ErrCorrupt, "ErrTooLarge": ErrTooLarge, "ErrUnauthorized": ErrUnauthorized, "ErrForbidden": ErrForbidden,
}

// A refusal is the same error after a trip over the wire, whatever its sentence.
func TestErrorsAfterATrip(t *testing.T) {
	for name, sentinel := range sentinels {
		sent, err := json.Marshal(ErrorBody{ErrorCode: sentinel.Code, Message: sentinel.With("about %s", "orders").Message})
		if err != nil {
			t.Fatal(err)
		}
		var body ErrorBody
		if err := json.Unmarshal(sent, &body); err != nil {
			t.Fatal(err)
		}
		arrived := fmt.Errorf("create the stream: %w", &Error{Code: body.ErrorCode, Message: body.Message})
		for other, candidate := range sentinels {
			if got, want := errors.Is(arrived, candidate), other == name; got != want {
				t.Errorf("%s equals %s: %t", name, other, got)
			}
		}
		if !strings.Contains(arrived.Error(), sentinel.Code+": about orders") {
			t.Errorf("the text is %q", arrived)
		}
	}
	if errors.Is(ErrConflict, errors.New(ErrConflict.Error())) {
		t.Error("a text equals an error")
	}
}

func TestWithLeavesTheSentinelAlone(t *testing.T) {
	before := *ErrConflict
	changed := ErrConflict.With("group %s", "billing")
	if *ErrConflict != before {
		t.Errorf("the sentinel became %+v", *ErrConflict)
	}
	if changed.Message != "group billing" || changed.Code != before.Code || !changed.Retryable {
		t.Errorf("the copy is %+v", *changed)
	}
}

// Codes are API, and sentences say something.
func TestSentinels(t *testing.T) {
	codes := make(map[string]string)
	for name, e := range sentinels {
		if e.Code == "" || strings.ToUpper(e.Code) != e.Code || strings.ContainsAny(e.Code, " -") {
			t.Errorf("%s has code %q", name, e.Code)
		}
		if other, ok := codes[e.Code]; ok {
			t.Errorf("%s and %s share code %s", name, other, e.Code)
		}
		codes[e.Code] = name
		if len(e.Message) < 15 || strings.ToLower(e.Message[:1]) != e.Message[:1] || strings.HasSuffix(e.Message, ".") {
			t.Errorf("%s says %q", name, e.Message)
		}
	}
	for name := range declared(t, func(name string) bool {
		return strings.HasPrefix(name, "Err") && name != "Error" && name != "ErrorBody"
	}) {
		if _, ok := sentinels[name]; !ok {
			t.Errorf("%s is not tested here", name)
		}
	}
}

// sources parses the package without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}

// declared returns the package's top-level names that pass.
func declared(t *testing.T, pass func(string) bool) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if pass(n.Name) {
							names[n.Name] = true
						}
					}
				case *ast.TypeSpec:
					if pass(s.Name.Name) {
						names[s.Name.Name] = true
					}
				}
			}
		}
	}
	return names
}

// structsWithTags returns the exported types of the package with JSON names.
func structsWithTags(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok || !s.Name.IsExported() {
					continue
				}
				body, ok := s.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range body.Fields.List {
					if field.Tag != nil && strings.Contains(field.Tag.Value, "json:") {
						names[s.Name.Name] = true
					}
				}
			}
		}
	}
	return names
}
