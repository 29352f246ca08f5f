package group

import (
	"iter"
	"strings"
)

// roll finds lives by their names.
type roll struct {
	// keys are those of the lives, in their order.
	keys []string
	// first maps a member to its oldest life, next a life to the following one
	// of the same member, or None.
	first map[string]int32
	next  []int32
}

// call calls the roll of lives.
func call(lives []Life) roll {
	r := roll{keys: make([]string, len(lives)), first: make(map[string]int32, len(lives)), next: make([]int32, len(lives))}
	for i := len(lives) - 1; i >= 0; i-- {
		r.keys[i] = lives[i].Key()
		r.next[i] = None
		// The same bytes as in the key, so that a look-up fetches them once.
		member := r.keys[i][:len(lives[i].Member)]
		if later, another := r.first[member]; another {
			r.next[i] = later
		}
		r.first[member] = int32(i)
	}
	return r
}

// livesOf walks over the lives of a member, in the order of their joining.
func (r *roll) livesOf(member string) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		life, found := r.first[member]
		for found && life != None && yield(life) {
			life = r.next[life]
		}
	}
}

// find finds a life by its key.
func (r *roll) find(key string) (int32, bool) {
	// Names hold no slash; a record that was tampered with may say otherwise.
	for end := 0; ; end++ {
		at := strings.IndexByte(key[end:], '/')
		if at < 0 {
			return None, false
		}
		end += at
		for i := range r.livesOf(key[:end]) {
			if r.keys[i] == key {
				return i, true
			}
		}
	}
}
