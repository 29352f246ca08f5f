package httpapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
)

// The description of the API and the page that shows it. openapi.json is made from the
// routes, the types of the bodies and their comments by the test that checks it.
//
//go:embed docs/openapi.json docs/page.html docs/page.css docs/page.js
var documents embed.FS

// document is a body that is sent as it is.
type document struct {
	text        []byte
	contentType string
	// policy is the Content-Security-Policy, empty for none.
	policy string
}

func (d document) AppendJSON(b []byte) []byte { return append(b, d.text...) }
func (d document) SizeHint() int              { return len(d.text) }

// describe sets the headers that differ from those of other answers.
func (d document) describe(header http.Header) {
	header.Set("Content-Type", d.contentType)
	if d.policy != "" {
		header.Set("Content-Security-Policy", d.policy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Frame-Options", "DENY")
	}
}

// mustRead returns an embedded file: the program does not build without it.
func mustRead(name string) []byte {
	text, err := documents.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return text
}

// openAPI is the description with the paths as they are served.
func openAPI(basePath string) document {
	text := mustRead("docs/openapi.json")
	if basePath != DefaultBasePath {
		text = bytes.ReplaceAll(text, []byte(`"`+DefaultBasePath+"/"), []byte(`"`+basePath+"/"))
	}
	return document{text: text, contentType: contentType}
}

// docsPage is one page with all that it needs. The policy allows this script and this
// style alone, and calls of this coordinator.
var docsPage = sync.OnceValue(func() document {
	style, script := mustRead("docs/page.css"), mustRead("docs/page.js")
	page := bytes.Replace(mustRead("docs/page.html"), []byte("/*style*/"), style, 1)
	page = bytes.Replace(page, []byte("/*script*/"), script, 1)
	return document{
		text: page, contentType: "text/html; charset=utf-8",
		policy: "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src " +
			sourceHash(style) + "; script-src " + sourceHash(script),
	}
})

func sourceHash(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (a *api) getOpenAPI(*gin.Context) (reply, error) {
	return reply{status: http.StatusOK, body: openAPI(a.config.BasePath), tagged: true}, nil
}

func (a *api) getDocs(*gin.Context) (reply, error) {
	return reply{status: http.StatusOK, body: docsPage(), tagged: true}, nil
}
