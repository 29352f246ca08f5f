// Package rules holds the repository to the rules that no single module can
// prove: which module may depend on which, what the go.mod files say, and what
// no file may contain. It contains tests only. What concerns core alone is
// proven inside core, by its package internal/archtest.
//
// Every rule is a function on plain values, tried on small inputs that break it
// before it is believed about the tree.
package rules
