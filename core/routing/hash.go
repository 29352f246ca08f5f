package routing

import "math/bits"

// The constants of MurmurHash3 x86 32-bit.
const (
	murmurC1     uint32 = 0xcc9e2d51
	murmurC2     uint32 = 0x1b873593
	murmurAdd    uint32 = 0xe6546b64
	murmurFinal1 uint32 = 0x85ebca6b
	murmurFinal2 uint32 = 0xc2b2ae35
)

// Hash returns MurmurHash3 x86 32-bit, seed 0, over the bytes of key (UTF-8 in
// a well-formed Go string). The hash of the empty key is 0. Documents that show
// the hash as a signed number mean the same 32 bits.
func Hash(key string) uint32 {
	return seededHash(key, 0)
}

// seededHash is Hash with a seed.
func seededHash(key string, seed uint32) uint32 {
	h := seed
	length := uint32(len(key)) // the algorithm takes the length modulo 2^32
	for len(key) >= 4 {
		block := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		h = mixBlock(h, block)
		key = key[4:]
	}
	var tail uint32
	for i := len(key) - 1; i >= 0; i-- {
		tail = tail<<8 | uint32(key[i])
	}
	return finish(h^scramble(tail), length)
}

// seedOf returns the hash, seed 0, of attempt as 4 little-endian bytes.
func seedOf(attempt uint32) uint32 {
	return finish(mixBlock(0, attempt), 4)
}

func mixBlock(h, block uint32) uint32 {
	return bits.RotateLeft32(h^scramble(block), 13)*5 + murmurAdd
}

func scramble(block uint32) uint32 {
	return bits.RotateLeft32(block*murmurC1, 15) * murmurC2
}

func finish(h, length uint32) uint32 {
	h ^= length
	h ^= h >> 16
	h *= murmurFinal1
	h ^= h >> 13
	h *= murmurFinal2
	return h ^ h>>16
}
