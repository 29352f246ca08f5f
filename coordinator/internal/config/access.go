package config

import (
	"strings"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
)

const (
	// shortSecret is below what keeps a secret from being found out by trying, in
	// bytes: whoever has a token can try as fast as his machine does.
	shortSecret = 16
	// derivedSecret ends the secret that existing installations sign tokens with when
	// none is configured.
	derivedSecret = ":redis-stream-coordinator-token" //nolint:gosec // no secret by itself
)

// Access returns who may call the API and how often.
func (c *Config) Access() httpapi.Access {
	api := &c.Coordinator.API
	return httpapi.Access{
		Users: api.APIUsers(),
		Tokens: httpapi.Tokens{
			Secret:         c.tokenSecret(),
			PreviousSecret: strings.TrimSpace(api.TokenSecretPrevious.Reveal()),
			TTL:            api.TokenTTL,
		},
		RateLimit: httpapi.RateLimit{Enabled: api.RateLimit.Enabled, MutationsPerMinute: api.RateLimit.AdminMutationsPerMinute},
	}
}

// APIUsers returns who may call the API: the users listed, else the one
// administrator.
func (a *API) APIUsers() []httpapi.User {
	if len(a.Users) == 0 {
		return []httpapi.User{{Username: a.AdminUsername, Password: a.AdminPassword.Reveal(), Roles: httpapi.AllRoles()}}
	}
	users := make([]httpapi.User, len(a.Users))
	for i, u := range a.Users {
		users[i] = httpapi.User{Username: u.Username, Password: u.Password.Reveal()}
		for _, r := range u.Roles {
			users[i].Roles = append(users[i].Roles, httpapi.Role(strings.ToUpper(r)))
		}
	}
	return users
}

// tokenSecret is what signs tokens. Without one it is made of the administrator's name
// and password, which all coordinators of an installation have; but not of a password
// that everybody knows, where others than this machine's users can log in: empty then,
// for one that the process draws.
func (c *Config) tokenSecret() string {
	api := &c.Coordinator.API
	if secret := strings.TrimSpace(api.TokenSecret.Reveal()); secret != "" {
		return secret
	}
	if api.AdminPassword == DefaultPassword && !isLoopback(c.Server.Address) || api.AdminPassword == "" {
		return ""
	}
	return api.AdminUsername + ":" + api.AdminPassword.Reveal() + derivedSecret
}

// warnOfTokenSecret says where tokens are weaker, or serve less, than they could.
func (l *loader) warnOfTokenSecret(c *Config) {
	api := &c.Coordinator.API
	for _, s := range []struct {
		key    string
		secret Secret
	}{{"token-secret", api.TokenSecret}, {"token-secret-previous", api.TokenSecretPrevious}} {
		if n := len(strings.TrimSpace(s.secret.Reveal())); n > 0 && n < shortSecret {
			l.warn("coordinator.api.%s: has %d bytes: whoever gets a token can find it out by trying and sign others; use 32 random bytes, such as openssl rand -base64 32 prints", s.key, n)
		}
	}
	switch {
	case c.tokenSecret() == "":
		l.warn("coordinator.api.token-secret: is not set, so the tokens of a login are good at this coordinator only, until it ends; set it to the same random text at all coordinators")
	case strings.TrimSpace(api.TokenSecret.Reveal()) == "" && !isLoopback(c.Server.Address):
		l.warn("coordinator.api.token-secret: is not set, so tokens are signed with the administrator's password; set it to the same random text at all coordinators")
	}
}
