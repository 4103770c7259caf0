// Package crc32c computes the CRC32C of RFC 3720 as hash/crc32 does, and long runs of
// bytes several times as fast on processors with VPCLMULQDQ.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Update returns the sum of the bytes before b, which have the sum crc, and of b. The sum
// of no bytes is 0.
func Update(crc uint32, b []byte) uint32 {
	crc, b = begin(crc, b)
	return crc32.Update(crc, table, b)
}

// Sum returns the sum of b alone.
func Sum(b []byte) uint32 { return Update(0, b) }
