package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// random returns n bytes.
func random(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// TestUpdate compares every length up to 4 KiB, at every place in a line of the cache,
// with hash/crc32, behind sums with and without bits.
func TestUpdate(t *testing.T) {
	const longest, line = 4 << 10, 64
	b := random(longest + line)
	each(func(name string) {
		for _, crc := range []uint32{0, 1, 1 << 31, 0x12345678, ^uint32(0)} {
			for at := range line {
				for n := range longest + 1 {
					part := b[at : at+n]
					if got, want := Update(crc, part), crc32.Update(crc, table, part); got != want {
						t.Fatalf("%s(%#x, %d bytes at %d) = %#x, expected %#x", name, crc, n, at, got, want)
					}
				}
			}
		}
	})
}

// TestLong compares runs of bytes of which none or few differ from 0, and random ones,
// also around the ends of what is summed at once.
func TestLong(t *testing.T) {
	for _, n := range []int{64 << 10, most - 1, most, most + 1, most + 1023, most + 1024, 2 * most, 2*most + 255, 1<<20 + 333} {
		b := make([]byte, n)
		for _, fill := range []func(){
			func() {},
			func() { b[0] = 1 },
			func() { b[0], b[n-1] = 0, 0x80 },
			func() { copy(b, random(n)) },
		} {
			fill()
			each(func(name string) {
				if got, want := Sum(b), crc32.Checksum(b, table); got != want {
					t.Errorf("%s of %d bytes = %#x, expected %#x", name, n, got, want)
				}
			})
		}
	}
}

// TestPieces wants the sum of pieces to be that of the whole.
func TestPieces(t *testing.T) {
	b := random(100_000)
	r := rand.New(rand.NewPCG(1, 2))
	want := crc32.Checksum(b, table)
	each(func(name string) {
		for range 100 {
			sum := uint32(0)
			for rest := b; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(10_000))
				sum = Update(sum, rest[:n])
				rest = rest[n:]
			}
			if sum != want {
				t.Fatalf("the sum of pieces by %s is %#x, expected %#x", name, sum, want)
			}
		}
	})
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte("123456789"), uint16(0))
	f.Add(uint32(7), random(3000), uint16(1500))
	f.Fuzz(func(t *testing.T, crc uint32, b []byte, cut uint16) {
		first, rest := b[:min(int(cut), len(b))], b[min(int(cut), len(b)):]
		each(func(name string) {
			if got, want := Update(Update(crc, first), rest), crc32.Update(crc, table, b); got != want {
				t.Errorf("%s = %#x, expected %#x", name, got, want)
			}
		})
	})
}

// Benchmark sums bytes from the cache, by each kernel and by hash/crc32.
func Benchmark(b *testing.B) {
	for _, n := range []int{64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 64 << 20} {
		bytes := random(n)
		run := func(name string, sum func([]byte) uint32) {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sum(bytes)
				}
			})
		}
		each(func(name string) { run(name, Sum) })
		run("hash", func(b []byte) uint32 { return crc32.Checksum(b, table) })
	}
}
