package driver

import "math"

// MaxArgs is the most parameters of a kernel.
const MaxArgs = 32

// Args are the parameters of a kernel, in the order of its declaration. Its methods
// append one and panic beyond MaxArgs. The zero value is empty.
type Args struct {
	values [MaxArgs]uint64 // little endian: a narrow parameter is the low bytes
	n      int
}

// Pointer appends an address.
func (a *Args) Pointer(p DevicePtr) *Args { return a.Uint64(uint64(p)) }

// Uint32 appends a .u32, .s32 or .b32 parameter.
func (a *Args) Uint32(v uint32) *Args { return a.Uint64(uint64(v)) }

// Float32 appends a .f32 parameter.
func (a *Args) Float32(v float32) *Args { return a.Uint64(uint64(math.Float32bits(v))) }

// Float64 appends a .f64 parameter.
func (a *Args) Float64(v float64) *Args { return a.Uint64(math.Float64bits(v)) }

// Uint64 appends a .u64, .s64 or .b64 parameter.
func (a *Args) Uint64(v uint64) *Args {
	a.values[a.n] = v
	a.n++
	return a
}

// Values returns the parameters, each in the low bytes of a word. A nil Args has none.
func (a *Args) Values() []uint64 {
	if a == nil {
		return nil
	}
	return a.values[:a.n]
}
