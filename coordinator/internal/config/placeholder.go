package config

import (
	"errors"
	"fmt"
	"strings"
)

// maxPlaceholderDepth bounds placeholders inside the defaults of placeholders.
const maxPlaceholderDepth = 8

// expand replaces ${NAME} and ${NAME:default} in a value of the file by
// environment variables; the default may hold placeholders again. A variable
// that is set to nothing counts as not set, since that is how compose files pass
// on what nobody set. $${ stands for the two characters ${.
func expand(text string, environ map[string]string) (string, error) {
	return expandAt(text, environ, maxPlaceholderDepth)
}

func expandAt(text string, environ map[string]string, depth int) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	if depth == 0 {
		return "", errors.New("has placeholders inside placeholders, too deep")
	}
	var out strings.Builder
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if start > 0 && text[start-1] == '$' {
			out.WriteString(text[:start-1] + "${")
			text = text[start+2:]
			continue
		}
		out.WriteString(text[:start])
		end := closingBrace(text[start+2:])
		if end < 0 {
			return "", errors.New("has a ${ without its }")
		}
		value, err := lookUp(text[start+2:start+2+end], environ, depth)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[start+2+end+1:]
	}
}

// lookUp resolves what stands between the braces.
func lookUp(inside string, environ map[string]string, depth int) (string, error) {
	name, fallback, hasDefault := strings.Cut(inside, ":")
	if !isVariable(name) {
		return "", fmt.Errorf("has a placeholder without the name of an environment variable: ${%.40s}", inside)
	}
	if value := environ[name]; value != "" {
		return value, nil
	}
	if !hasDefault {
		return "", fmt.Errorf("needs the environment variable %s, which is not set: set it, or write ${%s:default}", name, name)
	}
	return expandAt(fallback, environ, depth-1)
}

// closingBrace returns the index of the } that ends a placeholder.
func closingBrace(text string) int {
	open := 1
	for i := range len(text) {
		switch text[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
