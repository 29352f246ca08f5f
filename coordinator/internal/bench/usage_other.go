//go:build !unix

package bench

// selfUse is not known here.
func selfUse() use { return use{} }
