package httpapi

import (
	"hash/maphash"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// freeGuesses are the wrong passwords that a caller may send for one user at once;
	// guessPause brings one back.
	freeGuesses = 10
	guessPause  = 6 * time.Second
	// rememberedGuesses are the last wrong passwords that are not counted again: a
	// program with an outdated password sends the same one over and over, and must not
	// lock out those beside it.
	rememberedGuesses = 4
	// provenFor is how long a caller with the right password is served although wrong
	// ones come from the same address.
	provenFor = 15 * time.Minute
	// maxGuessers bounds the pairs of address and user that are remembered.
	maxGuessers = 16 << 10
	// examined is how many of them are looked at for the one to forget.
	examined = 16
	// ipv6Network is what one caller has of IPv6, in bits.
	ipv6Network = 64
)

// knowing says which right passwords are taken while too many wrong ones come.
type knowing bool

const (
	// provenCallers: those that this address has shown before. A proxy, or a host with
	// many members, has one address for all.
	provenCallers knowing = true
	// nobody: none. A login can wait, since there is a token meanwhile.
	nobody knowing = false
)

// throttle bounds how fast passwords can be guessed: by address and user, so that
// nobody can lock somebody elsewhere out.
type throttle struct {
	seed maphash.Seed
	mu   sync.Mutex
	// pairs are at most maxGuessers.
	pairs map[guesser]*guesses
}

// guesser is an address, or a network of IPv6, with a user's name as a digest.
type guesser struct {
	from netip.Prefix
	user uint64
}

// guesses are what is remembered of a guesser.
type guesses struct {
	// debt counts the wrong passwords; it falls by one each guessPause. at is when it
	// was last reckoned.
	debt float64
	at   time.Time
	// wrong are digests of the last ones, the newest last.
	wrong []uint64
	// proven is when the right password last came.
	proven time.Time
}

// verdict is what becomes of a password.
type verdict struct {
	// wait, if not 0, is how long no password is answered.
	wait time.Duration
	// fresh is set for a wrong password that was not seen before.
	fresh bool
}

func newThrottle() *throttle {
	return &throttle{seed: maphash.MakeSeed(), pairs: make(map[guesser]*guesses)}
}

// judge takes down a password that is right or wrong and says whether the caller may
// be told.
func (t *throttle) judge(from netip.Addr, username, password string, right bool, known knowing, now time.Time) verdict {
	key := guesser{network(from), maphash.String(t.seed, username)}
	digest := maphash.String(t.seed, password)
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.pairs[key]
	if g == nil {
		g = &guesses{at: now}
		t.makeRoom(now)
		t.pairs[key] = g
	}
	g.settle(now)
	full := g.debt+1 > freeGuesses
	switch {
	case right && (!full || known == provenCallers && g.isProven(now)):
		g.proven = now
		return verdict{}
	case full:
		return verdict{wait: time.Duration(math.Ceil((g.debt + 1 - freeGuesses) * float64(guessPause)))}
	case slices.Contains(g.wrong, digest):
		return verdict{}
	}
	g.debt++
	g.wrong = append(g.wrong, digest)
	g.wrong = g.wrong[max(0, len(g.wrong)-rememberedGuesses):]
	return verdict{fresh: true}
}

// settle takes off what time has paid back.
func (g *guesses) settle(now time.Time) {
	if passed := now.Sub(g.at); passed > 0 {
		g.debt = max(0, g.debt-float64(passed)/float64(guessPause))
		g.at = now
	}
}

func (g *guesses) isProven(now time.Time) bool {
	return !g.proven.IsZero() && now.Sub(g.proven) < provenFor
}

// makeRoom forgets a guesser if there are too many: of some, the one with the fewest
// wrong passwords, so that nobody clears a record by filling the table with others.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.pairs) < maxGuessers {
		return
	}
	var least guesser
	lowest, seen := math.Inf(1), 0
	for key, g := range t.pairs { // in an order that is another one each time
		g.settle(now)
		worth := g.debt
		if g.isProven(now) {
			worth += 0.5 // before one that nothing is known of
		}
		if worth < lowest {
			least, lowest = key, worth
		}
		if seen++; seen == examined || lowest == 0 {
			break
		}
	}
	delete(t.pairs, least)
}

// network is what a caller can be known by.
func network(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = ipv6Network
	}
	p, err := from.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // of an address that is not known
	}
	return p
}
