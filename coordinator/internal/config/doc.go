// Package config reads what a coordinator is told: defaults, then a YAML file,
// then the environment, then the command line, each overriding the one before.
//
// The fields of [Config] are the settings; everything else (names of keys and of
// environment variables, what is printed) is derived from them. A setting in the
// file that does not exist, or a value that cannot be, is an error that names
// the key. In the environment an unknown name is only a warning, because
// container platforms inject names of their own.
package config
