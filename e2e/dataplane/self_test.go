package dataplane

import "os"

// selfPath is the test binary, which is the members' program too.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
