package routing

import "strings"

// SlotCount is the number of slots of a Redis Cluster.
const SlotCount = 16384

// crc16Poly is the polynomial of CRC16/XMODEM (initial value 0, not reflected).
const crc16Poly uint16 = 0x1021

var crc16Table = makeCRC16Table()

// Slot returns the Redis Cluster slot of key, 0 to SlotCount-1. As in Redis,
// when key has a "{" with a "}" somewhere after it and at least one byte
// between the first "{" and the first "}" behind it, only those bytes count:
// keys with the same such tag share a slot, hence a node.
// Source: the Redis Cluster specification, "Hash tags".
func Slot(key string) int {
	key = hashTag(key)
	var crc uint16
	for i := 0; i < len(key); i++ {
		crc = crc<<8 ^ crc16Table[byte(crc>>8)^key[i]]
	}
	return int(crc % SlotCount)
}

// hashTag returns the part of key that decides its slot.
func hashTag(key string) string {
	_, after, found := strings.Cut(key, "{")
	if !found {
		return key
	}
	tag, _, found := strings.Cut(after, "}")
	if !found || tag == "" {
		return key
	}
	return tag
}

func makeCRC16Table() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= crc16Poly
			}
		}
		table[i] = crc
	}
	return table
}
