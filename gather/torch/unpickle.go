package torch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrPickle is returned for bytes that are no pickle, and for one that needs anything but
// dicts, lists, tuples, numbers, texts and tensors.
var ErrPickle = errors.New("torch: the pickle cannot be read")

// The values that a pickle can hold: nil, bool, int64, float64, string, tuple, *list,
// *dict, global, storage and *tensor. No code is run and no name is looked up.
type (
	tuple  []any
	list   struct{ items []any }
	dict   struct{ items map[string]any }
	global string // module and name with a space between

	// storage is a file of the archive with elements of one type.
	storage struct {
		kind  string // as in "Float"
		key   string // its name in the folder data
		count int64  // elements
	}

	// tensor is a view of a storage.
	tensor struct {
		storage
		offset int64 // of the first element
		shape  []int64
	}

	mark struct{}
)

// storages are the element types that a tensor may have, with their sizes.
var storages = map[string]int64{"Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Byte": 1, "Char": 1, "Short": 2, "Int": 4, "Long": 8, "Bool": 1}

// globals are all names that a pickle may use.
var globals = func() map[global]bool {
	g := map[global]bool{"collections OrderedDict": true, "torch._utils _rebuild_tensor_v2": true}
	for kind := range storages {
		g["torch "+global(kind)+"Storage"] = true
	}
	for _, dtype := range []global{"float32", "float16", "bfloat16", "float64"} {
		g["torch "+dtype] = true
	}
	return g
}()

// machine reads one pickle. An opcode makes at most one value, and moves others, so that
// memory is in proportion to the input. Its methods panic with a failure.
type machine struct {
	in    []byte // that is left
	stack []any
	memo  map[uint32]any
}

// failure is what unpickle makes ErrPickle of.
type failure struct{ error }

func fail(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }

func failStack() { fail("the stack does not fit") }

// unpickle returns the value of a pickle of protocol 2, which torch.save writes.
func unpickle(b []byte) (v any, err error) {
	m := &machine{in: b, memo: map[uint32]any{}}
	var op byte
	at := 0
	defer func() {
		switch x := recover().(type) {
		case nil:
		case failure:
			v, err = nil, fmt.Errorf("%w: opcode %#02x at byte %d: %v", ErrPickle, op, at, x.error)
		default:
			panic(x)
		}
	}()
	for op != '.' {
		at = len(b) - len(m.in)
		op = m.bytes(1)[0]
		m.step(op)
	}
	if v = m.pop(); len(m.stack) != 0 || len(m.in) != 0 {
		fail("%d values and %d bytes are left, expected one value", len(m.stack)+1, len(m.in))
	}
	return v, nil
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

func (m *machine) pop() any { return m.top(1)[0] }

// top removes the n uppermost values and returns a copy of them.
func (m *machine) top(n int) tuple {
	at := len(m.stack) - n
	if at < 0 {
		failStack()
	}
	out := append(tuple{}, m.stack[at:]...)
	m.stack = m.stack[:at]
	return out
}

// toMark removes the values above the last mark, and the mark.
func (m *machine) toMark() tuple {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			out := m.top(len(m.stack) - i - 1)
			m.stack = m.stack[:i]
			return out
		}
	}
	failStack()
	return nil
}

func (m *machine) bytes(n uint64) []byte {
	if n > uint64(len(m.in)) {
		fail("%d bytes are left, expected %d", len(m.in), n)
	}
	b := m.in[:n]
	m.in = m.in[n:]
	return b
}

// uint reads n little-endian bytes.
func (m *machine) uint(n int) uint64 {
	var b [8]byte
	copy(b[:], m.bytes(uint64(n)))
	return binary.LittleEndian.Uint64(b[:])
}

// line reads up to a newline, of at most 100 bytes.
func (m *machine) line() string {
	n := bytes.IndexByte(m.in[:min(len(m.in), 100)], '\n')
	if n < 0 {
		fail("a name is too long")
	}
	return string(m.bytes(uint64(n) + 1)[:n])
}

// step carries out one opcode.
func (m *machine) step(op byte) {
	switch op {
	case '.': // the end
	case 0x80: // PROTO
		if n := m.uint(1); n != 2 {
			fail("protocol %d, expected 2", n)
		}
	case '(':
		m.push(mark{})
	case '}':
		m.push(&dict{map[string]any{}})
	case ']':
		m.push(&list{})
	case ')':
		m.push(tuple{})
	case 'N':
		m.push(nil)
	case 0x88, 0x89:
		m.push(op == 0x88)
	case 'q', 'r': // BINPUT, LONG_BINPUT
		n, v := m.uint(wide[op]), m.pop()
		if _, ok := v.(mark); ok {
			failStack()
		}
		m.memo[uint32(n)] = v
		m.push(v)
	case 'h', 'j': // BINGET, LONG_BINGET
		n := uint32(m.uint(wide[op]))
		v, ok := m.memo[n]
		if !ok {
			fail("the memo has no %d", n)
		}
		m.push(v)
	case 'K', 'M', 'J', 0x8a, 'G', 'X':
		m.push(m.literal(op))
	case 0x85, 0x86, 0x87, 't': // tuples of 1, 2, 3 or all values above the mark
		if op == 't' {
			m.push(unmarked(m.toMark()))
		} else {
			m.push(unmarked(m.top(int(op-0x85) + 1)))
		}
	case 'a', 'e', 's', 'u':
		m.fill(op)
	case 'c', 'Q', 'R':
		m.object(op)
	default:
		fail("not one that torch.save writes for dicts, lists and tensors")
	}
}

// wide is the bytes of the number behind an opcode.
var wide = map[byte]int{'q': 1, 'h': 1, 'r': 4, 'j': 4, 'K': 1, 'M': 2, 'J': 4, 0x8a: 1, 'G': 8, 'X': 4}

// literal is a number or a text.
func (m *machine) literal(op byte) any {
	n := m.uint(wide[op])
	switch op {
	case 'J':
		return int64(int32(n))
	case 'G': // the only big-endian one
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		return math.Float64frombits(binary.BigEndian.Uint64(b[:]))
	case 'X':
		return string(m.bytes(n))
	case 0x8a: // LONG1
		if n > 8 {
			fail("integer of %d bytes, expected at most 8", n)
		}
		shift := 64 - 8*n
		return int64(m.uint(int(n))<<shift) >> shift
	}
	return int64(n)
}

// unmarked refuses values with a mark among them.
func unmarked(items tuple) tuple {
	for _, v := range items {
		if _, ok := v.(mark); ok {
			failStack()
		}
	}
	return items
}

// fill puts the uppermost values, or those above the mark, into a list or a dict.
func (m *machine) fill(op byte) {
	n := map[byte]int{'a': 1, 's': 2}[op]
	var items tuple
	if n > 0 {
		items = unmarked(m.top(n))
	} else {
		items = unmarked(m.toMark())
	}
	into := m.pop()
	m.push(into)
	l, isList := into.(*list)
	d, isDict := into.(*dict)
	switch {
	case isList && (op == 'a' || op == 'e'):
		l.items = append(l.items, items...)
	case isDict && (op == 's' || op == 'u') && len(items)%2 == 0:
		for i := 0; i < len(items); i += 2 {
			key, ok := items[i].(string)
			if _, twice := d.items[key]; !ok || twice {
				fail("the key %.40q of type %T is there twice, or is no text", key, items[i])
			}
			d.items[key] = items[i+1]
		}
	default:
		failStack()
	}
}
