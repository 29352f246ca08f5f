package routing

import (
	"math/big"
	"strings"
)

// This file holds a slow second opinion: the same three functions written from
// their definitions with other means (bytes of a slice, 64-bit arithmetic,
// single bits), so that a slip in the fast code does not repeat itself here.

func referenceHash(data []byte, seed uint32) uint32 {
	mul := func(a, b uint64) uint64 { return a * b & 0xffffffff }
	rotl := func(a uint64, by uint) uint64 { return (a<<by | a>>(32-by)) & 0xffffffff }
	mix := func(word uint64) uint64 {
		return mul(rotl(mul(word, 0xcc9e2d51), 15), 0x1b873593)
	}
	h := uint64(seed)
	var word uint64
	for i, b := range data {
		word |= uint64(b) << (8 * (i % 4))
		if i%4 == 3 {
			h = (mul(rotl(h^mix(word), 13), 5) + 0xe6546b64) & 0xffffffff
			word = 0
		}
	}
	h ^= mix(word)
	h ^= uint64(len(data)) & 0xffffffff
	h = mul(h^h>>16, 0x85ebca6b)
	h = mul(h^h>>13, 0xc2b2ae35)
	return uint32(h ^ h>>16)
}

// referenceShard also returns how often the key was hashed again.
func referenceShard(key string, count int) (shard, attempts int) {
	space := new(big.Int).Lsh(big.NewInt(1), 32)
	n := big.NewInt(int64(count))
	limit := new(big.Int).Sub(space, new(big.Int).Mod(space, n))
	u := referenceHash([]byte(key), 0)
	for big.NewInt(int64(u)).Cmp(limit) >= 0 {
		attempts++
		number := []byte{byte(attempts), byte(attempts >> 8), byte(attempts >> 16), byte(attempts >> 24)}
		u = referenceHash([]byte(key), referenceHash(number, 0))
	}
	return int(int64(u) % int64(count)), attempts
}

func referenceSlot(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	// Polynomial division of the key, followed by 16 zero bits, by x^16+x^12+x^5+1.
	var remainder uint32
	for _, b := range append([]byte(key), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			remainder = remainder<<1 | uint32(b>>bit&1)
			if remainder&0x10000 != 0 {
				remainder ^= 0x11021
			}
		}
	}
	return int(remainder % 16384)
}
