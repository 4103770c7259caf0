package tensor

import "math"

// scalars are those of the program being recorded.
type scalars struct {
	values []float64
	keys   []scalarKey
	// table finds a key: a hash table with open addressing whose elements are places in
	// keys from 1; 0 is none. Its length is a power of two, and at least half of it is
	// free.
	table []uint16
}

// scalarKey identifies a scalar by the operation and the argument where it is used. Equal
// scalars with one key become one, so that a learning rate of fifty updates travels once.
// Scalars with different keys stay apart even if they are equal in one step: merging them
// would make it another program.
type scalarKey struct {
	op   Op
	arg  int
	bits uint64
}

var _ = [1]struct{}{}[MaxScalars>>16] // a place fits into an element of the table

// of returns the place of f, as argument arg of op.
func (t *scalars) of(op Op, arg int, f float64) int {
	if 2*len(t.keys) >= len(t.table) {
		t.grow()
	}
	k := scalarKey{op, arg, math.Float64bits(f)}
	slot := t.find(k)
	if *slot == 0 {
		t.values, t.keys = append(t.values, f), append(t.keys, k)
		*slot = uint16(len(t.keys))
	}
	return int(*slot) - 1
}

// find returns the element of the table that has k, or the one that k is to have.
func (t *scalars) find(k scalarKey) *uint16 {
	for i := hashOf(uint64(k.op)<<8+uint64(k.arg), k.bits); ; i++ {
		slot := &t.table[i&uint64(len(t.table)-1)]
		if *slot == 0 || t.keys[*slot-1] == k {
			return slot
		}
	}
}

func (t *scalars) grow() {
	t.table = make([]uint16, max(2*len(t.table), 64))
	for i, k := range t.keys {
		*t.find(k) = uint16(i + 1)
	}
}

// reset begins another program.
func (t *scalars) reset() {
	clear(t.table)
	t.values, t.keys = t.values[:0], t.keys[:0]
}

// hashOf returns a hash of two words, whose lowest bits are as good as the others.
func hashOf(a, b uint64) uint64 {
	h := (a^b>>32)*0x9e3779b97f4a7c15 ^ b*0xff51afd7ed558ccd
	return h ^ h>>32
}
