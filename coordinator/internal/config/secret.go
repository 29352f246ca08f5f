package config

import (
	"fmt"
	"log/slog"
	"net/url"
)

// mask stands for a secret in everything that is printed.
const mask = "********"

// Secret is a text that is never printed. Reveal returns it.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) masked() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format prints the mask, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.masked()) }

// LogValue logs the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.masked()) }

// MarshalText writes the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.masked()), nil }

// URL is a URL whose password is never printed. Reveal returns it whole.
type URL string

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return string(u) }

func (u URL) masked() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil {
		return mask
	}
	return parsed.Redacted()
}

// Format prints the URL without its password, whatever the verb.
func (u URL) Format(f fmt.State, _ rune) { fmt.Fprint(f, u.masked()) }

// LogValue logs the URL without its password.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.masked()) }

// MarshalText writes the URL without its password.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.masked()), nil }
