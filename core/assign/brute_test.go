package assign

import (
	"math/rand/v2"
	"testing"
)

const (
	bruteShards  = 6
	bruteMembers = 4
	// maxInputs is how many inputs are tried for one size. If there are more,
	// a random sample of sampledInputs is.
	maxInputs     = 100_000
	sampledInputs = 20_000
)

// TestBruteForce compares with the best of all balanced assignments.
func TestBruteForce(t *testing.T) {
	rnd, seed := newRand(t)
	inputs := 0
	for members := 1; members <= bruteMembers; members++ {
		for shards := 0; shards <= bruteShards; shards++ {
			world := newBruteWorld(shards, members)
			check := func(heldCode, previousCode int) {
				inputs++
				held, previous := world.decode(heldCode), world.decode(previousCode)
				verify(t, held, previous, members)
				owner := held
				for s := range owner {
					if owner[s] == None {
						owner[s] = previous[s]
					}
				}
				best := world.fewestMoves[world.encode(owner)]
				if got := MinMoves(owner, nil, members); got != best {
					t.Fatalf("MinMoves(%v, nil, %d) = %d, brute force %d (seed %d)", owner, members, got, best, seed)
				}
			}
			if world.codes()*world.codes() > maxInputs {
				for range sampledInputs {
					check(rnd.IntN(world.codes()), rnd.IntN(world.codes()))
				}
				continue
			}
			for heldCode := range world.codes() {
				for previousCode := range world.codes() {
					check(heldCode, previousCode)
				}
			}
		}
	}
	t.Logf("%d inputs", inputs)
}

// bruteWorld knows the fewest moves out of every ownership of some shards. An
// ownership is coded as a number with one digit, 0 for None, per shard.
type bruteWorld struct {
	shards, members int
	fewestMoves     []int
}

func newBruteWorld(shards, members int) bruteWorld {
	w := bruteWorld{shards: shards, members: members}
	balanced := w.balanced()
	w.fewestMoves = make([]int, w.codes())
	for code := range w.fewestMoves {
		owner, fewest := w.decode(code), shards
		for _, target := range balanced {
			moves := 0
			for s := range owner {
				if owner[s] != None && owner[s] != target[s] {
					moves++
				}
			}
			fewest = min(fewest, moves)
		}
		w.fewestMoves[code] = fewest
	}
	return w
}

// balanced returns all assignments with loads that differ by at most one.
func (w bruteWorld) balanced() (all [][]int32) {
	for code := range w.codes() {
		target, load, whole := w.decode(code), make([]int, w.members), true
		for _, m := range target {
			if m == None {
				whole = false
				break
			}
			load[m]++
		}
		for _, n := range load {
			whole = whole && n >= w.shards/w.members && n <= (w.shards+w.members-1)/w.members
		}
		if whole {
			all = append(all, target)
		}
	}
	return all
}

func (w bruteWorld) codes() int {
	codes := 1
	for range w.shards {
		codes *= w.members + 1
	}
	return codes
}

func (w bruteWorld) decode(code int) []int32 {
	owner := make([]int32, w.shards)
	for s := range owner {
		owner[s] = int32(code%(w.members+1)) - 1
		code /= w.members + 1
	}
	return owner
}

func (w bruteWorld) encode(owner []int32) int {
	code := 0
	for s := len(owner) - 1; s >= 0; s-- {
		code = code*(w.members+1) + int(owner[s]) + 1
	}
	return code
}

// newRand returns a source of randomness and its seed, which -seed repeats.
func newRand(t testing.TB) (*rand.Rand, uint64) {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}
