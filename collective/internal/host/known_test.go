package host

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
)

// TestKnown: an all-reduce of the buffer of the one before, and of any other after it, on either rank, gives the same bits.
func TestKnown(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), &Options{Chunk: 4096})
	const size = 20_004
	const sets = 3 // of buffers: two that are registered, one that is not
	bufs := make([][sets][]byte, len(cs))
	for r, c := range cs {
		for i := range bufs[r] {
			bufs[r][i] = make([]byte, size)
			if i < 2 {
				var err error
				if bufs[r][i], err = c.Alloc(size); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	type step struct {
		what  string
		dtype element.DType
		n     int
		dst   [2]int // sets by rank
		src   [2]int
		known [2]bool // by rank: it is taken for the call before
	}
	none, both := [2]bool{}, [2]bool{true, true}
	steps := []step{
		{"first", element.F32, size, [2]int{0, 0}, [2]int{0, 0}, none},
		{"again", element.F32, size, [2]int{0, 0}, [2]int{0, 0}, both},
		{"once more", element.F32, size, [2]int{0, 0}, [2]int{0, 0}, both},
		{"of another type", element.BF16, size, [2]int{0, 0}, [2]int{0, 0}, both},
		{"shorter", element.F32, size - 4096, [2]int{0, 0}, [2]int{0, 0}, none},
		{"as long again", element.F32, size, [2]int{0, 0}, [2]int{0, 0}, none},
		{"another of rank 1", element.F32, size, [2]int{0, 1}, [2]int{0, 1}, none},
		{"that again", element.F32, size, [2]int{0, 1}, [2]int{0, 1}, both},
		{"another of both", element.F32, size, [2]int{1, 0}, [2]int{1, 0}, none},
		{"rank 0's is not registered", element.F32, size, [2]int{2, 0}, [2]int{2, 0}, none},
		{"it is again", element.F32, size, [2]int{1, 0}, [2]int{1, 0}, both},
		{"rank 1's goes elsewhere", element.F32, size, [2]int{1, 1}, [2]int{1, 0}, none},
		{"in place", element.F32, size, [2]int{1, 0}, [2]int{1, 0}, both},
		{"both elsewhere", element.F32, size, [2]int{0, 1}, [2]int{1, 0}, none},
	}
	for i, s := range steps {
		var srcs [2][]byte
		for r := range cs {
			srcs[r] = fill(rng, s.dtype, s.n/s.dtype.Size())
			copy(bufs[r][s.src[r]], srcs[r])
		}
		want := reference(element.Sum, s.dtype, 1, nil, slices.Clone(srcs[:]))
		each(t, cs, func(c *Comm) error {
			hits := c.room.known.hits
			call := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: s.dtype, Count: int64(s.n / s.dtype.Size()), Seq: uint64(i)}
			dst := bufs[c.rank][s.dst[c.rank]][:s.n]
			if err := c.AllReduce(ctx, call, 1, dst, bufs[c.rank][s.src[c.rank]][:s.n]); err != nil {
				return err
			}
			if !bytes.Equal(dst, want) {
				return fmt.Errorf("%s: the sum is wrong", s.what)
			}
			if got := c.room.known.hits - hits; got == 1 != s.known[c.rank] {
				return fmt.Errorf("%s: %d known calls, expected %v", s.what, got, s.known[c.rank])
			}
			return nil
		})
	}
}
