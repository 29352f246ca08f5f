package config

import _ "embed" // the schema

// schemaText is made by a test of the settings and of the page that describes them.
//
//go:embed rsc.schema.json
var schemaText []byte

// JSONSchema returns a JSON schema of the settings file, for editors. Keys have to be
// nested in the file, as the shipped one has them, for it to apply.
func JSONSchema() []byte { return append([]byte(nil), schemaText...) }
