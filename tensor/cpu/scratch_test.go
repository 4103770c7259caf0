package cpu

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
)

// TestScratchOfMachine wants scratch memory that this process cannot get refused, with
// the figure, and small pieces not.
func TestScratchOfMachine(t *testing.T) {
	r := &run{lanes: 1 << 30}
	if n := len(grow(r, []byte(nil), smallScratch)); n != smallScratch {
		t.Errorf("a small piece has %d bytes, expected %d", n, smallScratch)
	}
	defer func() {
		err, _ := recover().(error)
		if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "MiB free") {
			t.Errorf("%v, expected ErrNoSpace with what is free", err)
		}
	}()
	grow(r, []byte(nil), smallScratch+1)
	t.Error("more than the machine has was allocated")
}

// TestStoppedOperand wants the operands of a product of 16-bit numbers left as they are
// by a program that is to end, in each order in which they may be stored.
func TestStoppedOperand(t *testing.T) {
	const n, k = 3, 5
	var stop atomic.Bool
	stop.Store(true)
	src := make([]uint16, n*k)
	for name, m := range map[string]matrix{
		"rows": {rs: k, cs: 1}, "columns": {rs: 1, cs: n}, "neither": {rs: 2, cs: 2},
	} {
		r := &run{lanes: 1, stop: &stop, bufs: [][]byte{bytesOf(src)}}
		m.widen = kernel.Best().WidenBF16
		brain := &kernel.BrainProducts{Pair: func([]float32, []uint16, []uint16) { t.Errorf("%s: a pair was made", name) }}
		for way, read := range map[string]func(wide *[]float32){
			"widened": func(wide *[]float32) { m.read(r, wide, 0, n, k) },
			"pairs":   func(wide *[]float32) { m.pairs(r, brain, wide, 0, n, k) },
		} {
			wide := make([]float32, n*k)
			for i := range wide {
				wide[i] = 7
			}
			read(&wide)
			for i, x := range wide {
				if x != 7 {
					t.Errorf("%s, %s: number %d was written", name, way, i)
				}
			}
		}
	}
}
