package tensor

import (
	"slices"
	"testing"
)

// TestFreesAhead: batches without a program that come after one that the engine has taken
// add to it the ids of values that it could have made, and not those of later uploads.
func TestFreesAhead(t *testing.T) {
	var f failures
	p := &Program{Instrs: make([]Instr, 3)}
	f.taken(&Batch{Program: p, Encoded: []byte{1}, Base: 10, Frees: []uint64{4}}, nil, false)
	for id := uint64(13); id < 1000; id++ {
		f.taken(&Batch{Frees: []uint64{id}}, nil, false)
	}
	f.taken(&Batch{Frees: []uint64{11, 1000, 2}}, nil, false)
	if got := f.ahead[0].frees; !slices.Equal(got, []uint64{4, 11, 2}) {
		t.Errorf("%d ids, %v; expected 4, 11 and 2", len(got), got)
	}
	f.taken(&Batch{}, nil, true)
	if len(f.ahead) != 0 {
		t.Errorf("%d programs are remembered after the engine told of them", len(f.ahead))
	}
}

// TestProgramsAhead: a session remembers the last programs, up to a number.
func TestProgramsAhead(t *testing.T) {
	var f failures
	for i := range uint64(3 * maxAhead) {
		b := &Batch{Program: &Program{Instrs: make([]Instr, 1)}, Encoded: []byte{byte(i % 3)}, Hash: Hash{byte(i % 3)}, Base: i}
		f.taken(b, nil, false)
		last := f.ahead[len(f.ahead)-1]
		if len(f.ahead) > maxAhead || last.base != i || last.encoded[0] != byte(i%3) || f.ahead[0].base+uint64(len(f.ahead)) != i+1 {
			t.Fatalf("%d programs from %d to %d after %d", len(f.ahead), f.ahead[0].base, last.base, i)
		}
	}
}
