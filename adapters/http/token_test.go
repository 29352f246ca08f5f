package httpapi

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var (
	tokenTime = time.Unix(1_800_000_000, 0)
	before    = tokenTime.Add(-time.Second)
)

// Tokens of this form are in use, so they are written byte for byte as before.
func TestTokenFormat(t *testing.T) {
	tests := []struct {
		key  string
		said token
		want string
	}{
		{
			"admin:password:redis-stream-coordinator-token",
			token{"admin", []Role{RoleWrite, RoleRead, RoleMonitor, RoleMember, RoleAdmin}, tokenTime},
			"djEKYWRtaW4KMTgwMDAwMDAwMApBRE1JTixNRU1CRVIsTU9OSVRPUixSRUFELFdSSVRF.3FxCvuzUhIV8Glk4FOf2jUpUOV-Zr17WX0h7Hmg7Bgo",
		},
		{
			"s3cret",
			token{"grafana", []Role{RoleRead}, tokenTime},
			"djEKZ3JhZmFuYQoxODAwMDAwMDAwClJFQUQ.UNVjwPsMgFTBAtNWZdgAweL5AXMPCglSGA3WO-T8Vfw",
		},
	}
	for _, tt := range tests {
		t.Run(tt.said.username, func(t *testing.T) {
			if got := tt.said.sign([]byte(tt.key)); got != tt.want {
				t.Errorf("signed as\n%s, want\n%s", got, tt.want)
			}
			got, err := readToken(tt.want, [][]byte{[]byte("new"), []byte(tt.key)}, before)
			if err != nil || got.username != tt.said.username || len(got.roles) != len(tt.said.roles) || !got.expires.Equal(tokenTime) {
				t.Errorf("read as %+v, %v", got, err)
			}
		})
	}
}

func TestTokensThatAreNone(t *testing.T) {
	key := []byte("s3cret")
	signed := func(content string) string {
		text := tokenText.EncodeToString([]byte(content))
		return text + "." + tokenText.EncodeToString(tokenCode(key, text))
	}
	good := signed("v1\ngrafana\n1800000000\nREAD")
	if _, err := readToken(good, [][]byte{key}, before); err != nil {
		t.Fatal(err)
	}
	content, code, _ := strings.Cut(good, ".")
	tests := map[string]string{
		"nothing":             "",
		"no code":             content,
		"empty code":          content + ".",
		"no content":          "." + code,
		"another code":        content + "." + tokenText.EncodeToString(tokenCode([]byte("other"), content)),
		"half a code":         content + "." + code[:20],
		"changed content":     tokenText.EncodeToString([]byte("v1\nadmin\n1800000000\nREAD")) + "." + code,
		"padded":              content + "." + code + "=",
		"two dots":            good + ".x",
		"too long":            signed("v1\n" + strings.Repeat("x", maxTokenBytes) + "\n1800000000\nREAD"),
		"other version":       signed("v2\ngrafana\n1800000000\nREAD"),
		"three lines":         signed("v1\ngrafana\n1800000000"),
		"five lines":          signed("v1\ngrafana\n1800000000\nREAD\nWRITE"),
		"expiry is no number": signed("v1\ngrafana\nsoon\nREAD"),
		"content no base64":   "a*b." + tokenText.EncodeToString(tokenCode(key, "a*b")),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := readToken(text, [][]byte{key}, before); !errors.Is(err, errBadToken) {
				t.Errorf("read as %+v, %v", got, err)
			}
		})
	}
	if _, err := readToken(good, [][]byte{key}, tokenTime); err == nil || err.Error() != errExpiredToken.Error() {
		t.Errorf("at its expiry: %v", err)
	}
}

// What a token gives is what the user has now, of what it names.
func TestHolderOfAToken(t *testing.T) {
	a := Access{Tokens: Tokens{Secret: "k"}, Users: []User{
		{Username: "ops", Password: "p", Roles: []Role{RoleRead, RoleMember}},
		{Username: "root", Password: "p", Roles: []Role{RoleAdmin}},
	}}.compile("")
	tests := []struct {
		name string
		said token
		may  permission
	}{
		{"as it is", token{"ops", []Role{RoleRead, RoleMember}, tokenTime}, mayRead | mayBeMember},
		{"less", token{"ops", []Role{RoleRead}, tokenTime}, mayRead},
		{"a role that was taken", token{"ops", []Role{RoleRead, RoleWrite}, tokenTime}, mayRead},
		{"the same by another name", token{"ops", []Role{RoleMonitor}, tokenTime}, mayRead},
		{"all roles of one who has them by one name", token{"root", AllRoles(), tokenTime}, mayRead | mayWrite | mayBeMember},
		{"unknown roles", token{"root", []Role{"OWNER", RoleRead}, tokenTime}, mayRead},
		{"only roles that were taken", token{"ops", []Role{RoleWrite}, tokenTime}, 0},
		{"only unknown roles", token{"root", []Role{"OWNER"}, tokenTime}, 0},
		{"no roles", token{"root", nil, tokenTime}, 0},
		{"a user who is gone", token{"former", []Role{RoleRead}, tokenTime}, 0},
		{"a user with another case", token{"OPS", []Role{RoleRead}, tokenTime}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := a.holderOf(tt.said.sign([]byte("k")), before)
			switch {
			case tt.may == 0 && (err == nil || err.Error() != errRevokedToken.Error()):
				t.Errorf("%+v, %v", p, err)
			case tt.may != 0 && (err != nil || p.may != tt.may || p.username != tt.said.username || !p.until.Equal(tokenTime)):
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// A token brings another one, but not a longer life.
func TestTokensDoNotProlongThemselves(t *testing.T) {
	a := Access{Tokens: Tokens{Secret: "k", TTL: time.Hour}, Users: []User{{Username: "ops", Password: "p", Roles: []Role{RoleRead}}}}.compile("")
	now := time.Unix(1_700_000_000, 1)
	text, expires := a.issue(a.check("ops", "p"), now)
	if want := time.Unix(1_700_003_601, 0); !expires.Equal(want) {
		t.Errorf("expires at %s, want %s: not before what is said", expires, want)
	}
	for range 100 {
		now = now.Add(30 * time.Second)
		p, err := a.holderOf(text, now)
		if err != nil {
			t.Fatal(err)
		}
		var until time.Time
		if text, until = a.issue(p, now); !until.Equal(expires) {
			t.Fatalf("the next one expires at %s, the first at %s", until, expires)
		}
	}
	if _, err := a.holderOf(text, expires); err == nil {
		t.Error("it outlived the first one")
	}
}
