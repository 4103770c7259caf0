package crosshost

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

const hang = 2 * time.Minute

// fill writes n elements of dt that are sums, products and powers of little ones without
// overflow, so that every order of adding integers and every bit of floats counts.
func fill(rng *rand.Rand, dt element.DType, n int) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, n*dt.Size())
	for range n {
		x := rng.NormFloat64()
		switch dt {
		case element.F64:
			b = le.AppendUint64(b, math.Float64bits(x))
		case element.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(x)))
		case element.BF16:
			b = le.AppendUint16(b, uint16(math.Float32bits(float32(x))>>16))
		case element.F16: // between 2^-7 and 2^7, of either sign
			b = le.AppendUint16(b, uint16(rng.Uint32()&0x83ff|(8+rng.Uint32N(14))<<10))
		case element.I64:
			b = le.AppendUint64(b, rng.Uint64())
		case element.I32:
			b = le.AppendUint32(b, rng.Uint32())
		default:
			b = append(b, byte(rng.Uint32()))
		}
	}
	return b
}

// reference folds as the canonical order says, with the portable kernels, in brackets of
// partial results in the wide type.
func reference(op element.Reduction, dt element.DType, scale float64, fold protocol.Fold, srcs [][]byte) []byte {
	var set kernel.Set
	if fold == nil {
		fold = protocol.Fold{len(srcs)}
	}
	wide := dt.Wide()
	n := len(srcs[0]) / dt.Size()
	var parts [][]byte
	for _, g := range fold {
		part := make([]byte, n*wide.Size())
		if wide != dt {
			set.ReduceWiden(op, dt, 1, [][]byte{part}, srcs[:g])
		} else {
			set.Reduce(op, dt, 1, [][]byte{part}, srcs[:g])
		}
		parts = append(parts, part)
		srcs = srcs[g:]
	}
	out := make([]byte, n*dt.Size())
	if wide != dt {
		set.ReduceNarrow(op, dt, scale, [][]byte{out}, parts)
	} else {
		set.Reduce(op, dt, scale, [][]byte{out}, parts)
	}
	return out
}

// uneven divides n into a count for each rank, some of them 0.
func uneven(rng *rand.Rand, n, ranks, unit int) []int {
	counts := make([]int, ranks)
	for r := range ranks - 1 {
		if rng.IntN(4) > 0 {
			counts[r] = rng.IntN(n/ranks + 1)
			n -= counts[r]
			counts[r] *= unit
		}
	}
	counts[ranks-1] = n * unit
	return counts
}

func concat(parts [][]byte) []byte { return bytes.Join(parts, nil) }

func split(b []byte, counts []int) (parts [][]byte) {
	for _, s := range protocol.Packed(counts) {
		parts = append(parts, s.Of(b))
	}
	return parts
}

// differs is nil if got is want.
func differs(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Errorf("%s differs at byte %d of %d", what, i, len(want))
}

// spare is room for n bytes that begin at an odd address and hold values that are not
// used.
func spare(n int) []byte {
	b := make([]byte, n+1)
	for i := range b {
		b[i] = 0xA5
	}
	return b[1:]
}

// script is a series of collectives of every kind, the same for all ranks: seed decides
// on all arguments. It checks every result against the reference, and returns everything
// that rank r got.
func script(ctx context.Context, c *Comm, fold protocol.Fold, seed uint64, count int, dts []element.DType) (results []byte, err error) {
	n, r := c.n, c.rank
	rng := rand.New(rand.NewPCG(seed, 1)) // of all ranks alike
	inPlace := rand.New(rand.NewPCG(seed, uint64(r)+10))
	var seq uint64
	next := func(kind protocol.Kind, op element.Reduction, dt element.DType, elements int) protocol.Call {
		seq++
		return protocol.Call{Seq: seq, Kind: kind, Op: op, DType: dt, Count: int64(elements)}
	}
	check := func(call protocol.Call, e error, what string, got, want []byte) bool {
		if e == nil {
			e = differs(what, got, want)
		}
		if e != nil {
			err = fmt.Errorf("rank %d, seed %d, %v: %w", r, seed, call, e)
			return false
		}
		results = append(results, got...)
		return true
	}
	for _, dt := range dts {
		srcs := make([][]byte, n)
		for p := range srcs {
			srcs[p] = fill(rng, dt, count)
		}
		root := rng.IntN(n)
		unit := dt.Size()
		for _, op := range element.Reductions() {
			if kernel.Supported(op, dt) != nil {
				continue
			}
			scale := 1.0
			if op == element.Sum && dt.IsFloat() {
				scale = 1 / float64(n)
			}
			want := reference(op, dt, scale, fold, srcs)
			src, dst := bytes.Clone(srcs[r]), spare(count*unit)
			if inPlace.IntN(2) == 0 {
				dst = src
			}
			call := next(protocol.AllReduce, op, dt, count)
			if !check(call, c.AllReduce(ctx, call, scale, dst, src), "dst", dst, want) {
				return
			}

			src, dst = bytes.Clone(srcs[r]), spare(count*unit)
			if inPlace.IntN(2) == 0 {
				dst = src
			}
			call = next(protocol.Reduce, op, dt, count)
			e := c.Reduce(ctx, call, scale, dst, src, root)
			if r != root {
				want, dst = nil, nil
			}
			if !check(call, e, "dst", dst, want) {
				return
			}

			counts := uneven(rng, count, n, unit)
			want = reference(op, dt, scale, fold, srcs)
			src, dst = bytes.Clone(srcs[r]), spare(counts[r])
			if inPlace.IntN(2) == 0 {
				dst = split(src, counts)[r]
			}
			call = next(protocol.ReduceScatter, op, dt, count)
			call.Counts = protocol.HashCounts(counts)
			if !check(call, c.ReduceScatter(ctx, call, scale, dst, src, counts), "dst", dst, split(want, counts)[r]) {
				return
			}
		}

		counts := uneven(rng, count, n, unit)
		whole := srcs[root]
		parts := split(whole, counts)
		dst := spare(count * unit)
		src := parts[r]
		if inPlace.IntN(2) == 0 {
			src = split(dst, counts)[r]
			copy(src, parts[r])
		}
		call := next(protocol.AllGather, element.None, dt, count)
		call.Counts = protocol.HashCounts(counts)
		if !check(call, c.AllGather(ctx, call, dst, src, counts), "dst", dst, whole) {
			return
		}

		buf := spare(len(whole))
		if r == root {
			copy(buf, whole)
		}
		call = next(protocol.Broadcast, element.None, dt, count)
		if !check(call, c.Broadcast(ctx, call, buf, root), "buf", buf, whole) {
			return
		}

		dst, src = spare(counts[r]), nil
		if r == root {
			src = whole
		}
		call = next(protocol.Scatter, element.None, dt, count)
		if !check(call, c.Scatter(ctx, call, dst, src, counts, root), "dst", dst, parts[r]) {
			return
		}

		dst = nil
		var want []byte
		if r == root {
			dst, want = spare(len(whole)), whole
		}
		call = next(protocol.Gather, element.None, dt, count)
		if !check(call, c.Gather(ctx, call, dst, parts[r], counts, root), "dst", dst, want) {
			return
		}

		// p sends q part q of its buffer.
		matrix := make([][]int, n)
		recvCounts := make([]int, n)
		var arrives [][]byte
		for p := range n {
			matrix[p] = uneven(rng, count, n, unit)
			recvCounts[p] = matrix[p][r]
			arrives = append(arrives, split(srcs[p], matrix[p])[r])
		}
		want = concat(arrives)
		dst = spare(len(want))
		call = next(protocol.AllToAll, element.None, dt, 0)
		if !check(call, c.AllToAll(ctx, call, dst, srcs[r], matrix[r], recvCounts), "dst", dst, want) {
			return
		}

		// Around the ring, both ways at once where two ranks meet.
		if n > 1 {
			right, left := (r+1)%n, (r+n-1)%n
			got := spare(len(whole))
			call = protocol.Call{Seq: seq, Kind: protocol.Send, DType: dt, Count: int64(count)}
			if e := c.Send(ctx, call, right, srcs[r]); e != nil {
				check(call, e, "", nil, nil)
				return
			}
			call.Kind = protocol.Recv
			if !check(call, c.Recv(ctx, call, left, got), "b", got, srcs[left]) {
				return
			}
		}
		call = next(protocol.Barrier, element.None, element.Invalid, 0)
		if !check(call, c.Barrier(ctx, call), "", nil, nil) {
			return
		}
	}
	return results, nil
}

// TestConformance: every collective of every type and operation, over conns that move a
// random number of bytes at a time, with chunks so small that everything is pipelined,
// and with the default ones.
func TestConformance(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	cases := 0
	pick := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 3, 4, 5, 8} {
		for _, o := range []Options{
			{},
			{Chunk: 64, OneShot: -1, Pair: -1},
			{Chunk: 128, OneShot: 1 << 30, Pair: 1 << 30},
		} {
			for _, count := range []int{0, 1, 3, 17, 1000, 65_537} {
				dts := element.Numeric()
				if count > 1000 {
					if n < 2 || n > 3 || o.Chunk > 0 { // by the million pieces
						continue
					}
					dts = []element.DType{element.F32, element.BF16, element.U8}
				}
				if n == 5 && count != 1000 || n == 8 && count != 17 {
					continue
				}
				if testing.Short() && pick.IntN(4) > 0 { // a sample
					continue
				}
				folds := []protocol.Fold{nil}
				if n == 4 {
					folds = append(folds, protocol.Fold{2, 2}, protocol.Fold{1, 3})
				}
				if n == 5 {
					folds = append(folds, protocol.Fold{1, 2, 2})
				}
				for _, fold := range folds {
					o.Fold = fold
					rng := rand.New(rand.NewPCG(seed, uint64(cases)))
					conns, waiters := mesh(t, n, 300+rng.IntN(4000)+count, rng)
					comms := world(t, conns, waiters, o)
					each(t, n, func(ctx context.Context, r int) error {
						_, err := script(ctx, comms[r], fold, seed+uint64(cases), count, dts)
						return err
					})
					if t.Failed() {
						t.Fatalf("%d ranks, %d elements, %+v", n, count, o)
					}
					cases++
				}
			}
		}
	}
	t.Log(cases, "worlds")
}
