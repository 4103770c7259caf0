package cuda

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/kernels"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxLaunch bounds the elements that all kernels in flight compute together. That is a
// few milliseconds of a GPU: a kernel in flight can't be stopped.
const maxLaunch = ptx.MaxElems

// alignment is the multiple of bytes at which temporaries begin, so that vector loads are
// aligned and neighbouring threads' loads coalesce.
const alignment = 256

// kernel is what a step launches, with all choices made that don't depend on the run.
// The launches run one after another.
type kernel struct {
	launches []launch
	scratch  int   // bytes of memory that only these launches use
	least    int   // the least of the indices that it checks
	bound    int   // the end of them; 0 for one that can't fail
	host     bool  // there is no kernel for the step
	err      error // a kernel that the library should have and does not
	products *products
}

// launch is a kernel of PTX with the arguments that it gets, or a product of a library.
type launch struct {
	product    *product
	text, name string

	// compile.Operand, ptx.Scalar, uint32, uint64, failure, recordOf, step or scalars
	args []any

	grid, block [3]uint32
	scalars     []ptx.Scalar
	page        int // where the scalars lie in the program's page
	work        int // the elements that an elementwise kernel computes in its time
	function    driver.Function
}

// scalars is the argument of generated kernels that is the address of their scalars.
type scalars struct{}

// recordOf is the argument of kernels that is the address of the address of the run's
// record, and step that is the number of their step.
type (
	recordOf struct{}
	step     struct{}
)

// real reports whether d is a dtype in which kernels of rows and planes compute.
func real(d tensor.DType) bool { return d == tensor.F32 || d == tensor.F64 }

// scratch is the buffer of operands that lie in a kernel's memory of its own.
const scratch = -1

// maxGrid is the most blocks along y or z.
const maxGrid = 65535

// work returns the work of all launches.
func (k *kernel) work() (n int) {
	for i := range k.launches {
		n += k.launches[i].work
	}
	return n
}

// temp returns a dense operand in scratch memory.
func (k *kernel) temp(d tensor.DType, shape tensor.Shape) compile.Operand {
	o := compile.Operand{Scalar: -1, Buf: scratch, DType: d, Shape: shape, Strides: shape.Strides(), Off: k.scratch / d.Size(), Dense: true}
	k.scratch += (shape.Elems()*d.Size() + alignment - 1) / alignment * alignment
	return o
}

// tiles adds a generated kernel, none for a result without elements.
func (k *kernel) tiles(s *compile.Step) {
	if s.Out.Shape.Elems() == 0 {
		return
	}
	t := ptx.Tiles(straight(k, s))
	if t == nil {
		k.host = true
		return
	}
	l := launch{text: t.Text, name: ptx.Name, grid: [3]uint32{uint32(t.Grid()), 1, 1}, block: [3]uint32{ptx.Threads, 1, 1}, work: t.Elems}
	for _, o := range t.Tensors {
		l.args = append(l.args, o)
	}
	if l.scalars = t.Scalars; len(l.scalars) > 0 {
		l.args = append(l.args, scalars{})
	}
	l.args = append(l.args, uint32(t.Elems))
	k.launches = append(k.launches, l)
}

// elementwise returns a step that computes out of in.
func elementwise(op tensor.Op, out compile.Operand, in ...compile.Operand) *compile.Step {
	return ptx.Elementwise(&compile.Step{Op: op, In: in, Out: out})
}

// dense returns o as a dense operand of dtype d: a copy where it is not one.
func (k *kernel) dense(o compile.Operand, d tensor.DType) compile.Operand {
	if o.Dense && o.DType == d {
		return o
	}
	t := k.temp(d, o.Shape)
	k.copy(t, o)
	return t
}

// call adds a kernel of the library in blocks of 256 threads, none for no blocks.
func (k *kernel) call(module, name string, work int, x, y, z int, args ...any) {
	text, err := kernels.Kernel(module, name)
	if err != nil {
		k.err = err
		return
	}
	if x == 0 || y == 0 || z == 0 {
		return
	}
	if y > maxGrid || z > maxGrid || x >= ptx.MaxElems || work > maxLaunch {
		k.host = true
		return
	}
	k.launches = append(k.launches, launch{
		text: text, name: name, grid: [3]uint32{uint32(x), uint32(y), uint32(z)}, block: [3]uint32{256, 1, 1}, args: args, work: work,
	})
}
