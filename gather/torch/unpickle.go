package torch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
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
// memory is in proportion to the input.
type machine struct {
	in    *bytes.Reader
	stack []any
	memo  map[uint32]any
}

// unpickle returns the value of a pickle of protocol 2, which torch.save writes.
func unpickle(b []byte) (any, error) {
	m := &machine{in: bytes.NewReader(b), memo: map[uint32]any{}}
	for {
		at := int64(len(b)) - int64(m.in.Len())
		op, err := m.in.ReadByte()
		if err == nil && op == '.' {
			v, err := m.pop()
			if err != nil || len(m.stack) != 0 || m.in.Len() != 0 {
				return nil, fmt.Errorf("%w: it ends at byte %d with %d values left, expected one at the last byte", ErrPickle, at, len(m.stack)+1)
			}
			return v, nil
		}
		if err == nil {
			err = m.step(op)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: opcode %#02x at byte %d: %v", ErrPickle, op, at, err)
		}
	}
}

var errStack = errors.New("the stack does not fit")

func (m *machine) push(v any) error {
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) pop() (any, error) {
	n := len(m.stack)
	if n == 0 {
		return nil, errStack
	}
	v := m.stack[n-1]
	m.stack = m.stack[:n-1]
	return v, nil
}

// top removes the n uppermost values and returns a copy of them.
func (m *machine) top(n int) (tuple, error) {
	at := len(m.stack) - n
	if at < 0 {
		return nil, errStack
	}
	out := append(tuple{}, m.stack[at:]...)
	m.stack = m.stack[:at]
	return out, nil
}

// toMark removes the values above the last mark, and the mark.
func (m *machine) toMark() (tuple, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			out, err := m.top(len(m.stack) - i - 1)
			m.stack = m.stack[:i]
			return out, err
		}
	}
	return nil, errStack
}

// uint reads n little-endian bytes.
func (m *machine) uint(n int) (uint64, error) {
	var b [8]byte
	if m.in.Len() < n {
		return 0, fmt.Errorf("%d bytes are left, expected %d", m.in.Len(), n)
	}
	_, err := m.in.Read(b[:n])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (m *machine) bytes(n uint64) ([]byte, error) {
	if n > uint64(m.in.Len()) {
		return nil, fmt.Errorf("%d bytes are left, expected %d", m.in.Len(), n)
	}
	b := make([]byte, n)
	_, err := m.in.Read(b)
	return b, err
}

// line reads up to a newline, of at most 100 bytes.
func (m *machine) line() (string, error) {
	var out []byte
	for range 100 {
		c, err := m.in.ReadByte()
		if err != nil || c == '\n' {
			return string(out), err
		}
		out = append(out, c)
	}
	return "", errors.New("a name is too long")
}

// step carries out one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		n, err := m.uint(1)
		if err == nil && n != 2 {
			err = fmt.Errorf("protocol %d, expected 2", n)
		}
		return err
	case '(':
		return m.push(mark{})
	case '}':
		return m.push(&dict{map[string]any{}})
	case ']':
		return m.push(&list{})
	case ')':
		return m.push(tuple{})
	case 'N':
		return m.push(nil)
	case 0x88, 0x89:
		return m.push(op == 0x88)
	case 'q', 'r', 'h', 'j':
		return m.remember(op)
	case 'K', 'M', 'J', 0x8a, 'G', 'X':
		return m.literal(op)
	case 0x85, 0x86, 0x87, 't', 'a', 'e', 's', 'u':
		return m.collect(op)
	case 'c', 'Q', 'R':
		return m.object(op)
	}
	return errors.New("not one that torch.save writes for dicts, lists and tensors")
}

// remember is BINPUT, LONG_BINPUT, BINGET and LONG_BINGET.
func (m *machine) remember(op byte) error {
	n, err := m.uint(map[byte]int{'q': 1, 'h': 1, 'r': 4, 'j': 4}[op])
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, ok := m.memo[uint32(n)]
		if !ok {
			return fmt.Errorf("the memo has no %d", n)
		}
		return m.push(v)
	}
	if len(m.stack) == 0 {
		return errStack
	}
	v := m.stack[len(m.stack)-1]
	if _, ok := v.(mark); ok {
		return errStack
	}
	m.memo[uint32(n)] = v
	return nil
}

// literal is a number or a text.
func (m *machine) literal(op byte) error {
	n, err := m.uint(map[byte]int{'K': 1, 'M': 2, 'J': 4, 0x8a: 1, 'G': 8, 'X': 4}[op])
	if err != nil {
		return err
	}
	switch op {
	case 'K', 'M':
		return m.push(int64(n))
	case 'J':
		return m.push(int64(int32(n)))
	case 'G': // the only big-endian one
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		return m.push(math.Float64frombits(binary.BigEndian.Uint64(b[:])))
	case 'X':
		text, err := m.bytes(n)
		if err != nil {
			return err
		}
		return m.push(string(text))
	}
	if n > 8 { // LONG1
		return fmt.Errorf("integer of %d bytes, expected at most 8", n)
	}
	x, err := m.uint(int(n))
	if err != nil {
		return err
	}
	shift := 64 - 8*uint(n)
	return m.push(int64(x<<shift) >> shift)
}

// collect makes tuples, and fills lists and dicts.
func (m *machine) collect(op byte) error {
	var items tuple
	var err error
	switch op {
	case 't', 'e', 'u':
		items, err = m.toMark()
	case 'a':
		items, err = m.top(1)
	case 's':
		items, err = m.top(2)
	default:
		items, err = m.top(int(op-0x85) + 1)
	}
	if err != nil {
		return err
	}
	for _, v := range items {
		if _, ok := v.(mark); ok {
			return errStack
		}
	}
	if op == 't' || op >= 0x85 {
		return m.push(items)
	}
	if len(m.stack) == 0 {
		return errStack
	}
	switch into := m.stack[len(m.stack)-1].(type) {
	case *list:
		if op == 'a' || op == 'e' {
			into.items = append(into.items, items...)
			return nil
		}
	case *dict:
		if op == 's' || op == 'u' {
			return into.fill(items)
		}
	}
	return errStack
}

func (d *dict) fill(items tuple) error {
	if len(items)%2 != 0 {
		return errStack
	}
	for i := 0; i < len(items); i += 2 {
		key, ok := items[i].(string)
		if !ok {
			return fmt.Errorf("a key is %T, expected a text", items[i])
		}
		if _, twice := d.items[key]; twice {
			return fmt.Errorf("the key %.40s is there twice", strconv.Quote(key))
		}
		d.items[key] = items[i+1]
	}
	return nil
}
