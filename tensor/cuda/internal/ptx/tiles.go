package ptx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Threads is the number of threads of a block.
const Threads = 256

// Name is the name of each kernel in its text.
const Name = "tiles"

// MaxElems is the most elements that a kernel counts.
const MaxElems = 1 << 31

// maxParams is what a launch can have.
const maxParams = 32

// Kernel is the kernel of a step. Its parameters are the addresses of Tensors, where
// there are Scalars the address of these, 8 bytes each, and the number of elements as 32
// bits. Scalars lie in memory, so that a launch that was captured gets those of its run.
// Steps of one structure have the same Text.
type Kernel struct {
	Text    string
	Tensors []compile.Operand
	Scalars []Scalar
	Elems   int
	Vector  int // elements of a thread: 4, 2 or 1
}

// Scalar is a number that is made of the scalars of a run.
type Scalar struct {
	DType tensor.DType

	// Bits returns the number, as function Bits does.
	Bits func(scalars []float64) uint64
}

// NewScalar returns the number of dtype d that of makes.
func NewScalar(d tensor.DType, of func(scalars []float64) float64) Scalar {
	return Scalar{d, func(s []float64) uint64 { return Bits(d, of(s)) }}
}

// Grid returns the number of blocks.
func (k *Kernel) Grid() int {
	return (k.Elems + Threads*k.Vector - 1) / (Threads * k.Vector)
}

// tiler writes a kernel.
type tiler struct {
	code
	k       *Kernel
	s       *compile.Step
	first   reg       // the number of the thread's first element
	loads   []*access // of each operand of the step; nil for a scalar
	stores  []*access // an output may be strided, but no two elements overlap
	pointer []reg     // of each of k.Tensors
	scalars map[string]reg
	page    reg     // the address of the scalars, empty before the first
	values  [][]reg // of each operand that is a tensor
}

// Tiles returns the kernel of a step with a body, nil if an operation in it has no code.
func Tiles(s *compile.Step) *Kernel {
	t := newTiler(s)
	if t == nil || !t.write() {
		return nil
	}
	return t.finish()
}

// newTiler returns the tiler of a step before anything is written, nil if its operands
// are out of a kernel's reach.
func newTiler(s *compile.Step) *tiler {
	n := s.Out.Shape.Elems()
	if n == 0 || n >= MaxElems {
		return nil
	}
	t := &tiler{k: &Kernel{Elems: n, Vector: 4}, s: s, scalars: map[string]reg{}, values: make([][]reg, len(s.In))}
	for _, o := range s.In {
		var a *access
		if o.Scalar < 0 {
			a = newAccess(o, s.Out.Shape, o.Broadcast(s.Out.Shape))
			if !a.fits() {
				return nil
			}
			t.k.Tensors = append(t.k.Tensors, o)
		}
		t.loads = append(t.loads, a)
	}
	for _, o := range s.Outs() {
		a := newAccess(*o, []int{n}, []int{1})
		if !o.Dense {
			a = newAccess(*o, s.Out.Shape, o.Strides)
		}
		if !a.fits() {
			return nil
		}
		t.stores = append(t.stores, a)
		t.k.Tensors = append(t.k.Tensors, *o)
	}
	if n%4 != 0 {
		t.k.Vector = 1
	}
	for _, a := range slices.Concat(t.loads, t.stores) {
		if a != nil && !a.vectors() {
			t.k.Vector = 1
		}
	}
	// A thread loads an operand at once: neighbours load what lies beside it.
	if t.k.Vector > 1 && slices.ContainsFunc(slices.Concat(t.loads, t.stores), func(a *access) bool { return a != nil && a.wide() }) {
		t.k.Vector = 2
	}
	return t
}

// finish returns the kernel that was written, nil if it has more parameters than a launch
// can have.
func (t *tiler) finish() *Kernel {
	if len(t.k.Tensors)+min(len(t.k.Scalars), 1) >= maxParams {
		return nil
	}
	t.k.Text = t.text()
	return t.k
}

// Elementwise returns a single step, elementwise or Numbered, as one with a body.
func Elementwise(s *compile.Step) *compile.Step {
	in := compile.Inst{Instr: s.Instr, Op: s.Op, DType: s.Out.DType, Ints: s.Ints}
	for i := range s.In {
		in.In = append(in.In, i)
	}
	t := *s
	t.Fused, t.Body = compile.Tiles, []compile.Inst{in}
	return &t
}

// begin adds what every kernel begins with: which elements are the thread's, and their
// values of each operand. It returns the number of the first parameter that is an output.
func (t *tiler) begin() (outputs int) {
	i := t.op(b32, "mad.lo.u32", t.op(b32, "mov.u32", "%ctaid.x"), whole(Threads), t.op(b32, "mov.u32", "%tid.x"))
	if t.k.Vector > 1 {
		i = t.op(b32, "shl.b32", i, whole(t.k.Vector/2))
	}
	t.first = i
	n := t.op(b32, "ld.param.u32", "[n]")
	t.line("@%s bra done", t.op(pred, "setp.ge.u32", i, n))
	for k := range t.k.Tensors {
		p := t.op(b64, "ld.param.u64", reg(fmt.Sprintf("[t%d]", k)))
		t.pointer = append(t.pointer, t.op(b64, "cvta.to.global.u64", p))
	}
	for k, a := range t.loads {
		if a != nil {
			t.values[k] = t.load(a, t.pointer[outputs], i, t.k.Vector)
			outputs++
		}
	}
	return outputs
}

// write adds the body, and reports whether all of it has code.
func (t *tiler) write() bool {
	at := t.begin()
	made := make([][]reg, len(t.s.Body)) // the results of each operation
	for b := range t.s.Body {
		if made[b] = t.instruction(b, made); made[b] == nil {
			return false
		}
	}
	for b, in := range t.s.Body {
		if in.Out >= 0 {
			t.store(t.stores[in.Out], t.pointer[at+in.Out], t.first, made[b])
		}
	}
	return true
}

// instruction adds operation b of the body for all elements of the thread, and returns
// their results. made holds those of earlier operations.
func (t *tiler) instruction(b int, made [][]reg) []reg {
	in := &t.s.Body[b]
	tensors := in.In[:len(in.In)-len(in.Op.Info().Scalars)]
	d := in.DType // of the operands
	for _, k := range tensors {
		switch {
		case k < 0:
			d = t.s.Body[-1-k].DType
		case t.s.In[k].Scalar < 0:
			d = t.s.In[k].DType
		}
	}
	if in.Op == tensor.OpWhere {
		d = in.DType // of those that are chosen from
	}
	var out []reg
	own := t.own(in, d, in.In[len(tensors):])
	var scalars []int
	for _, k := range in.In[len(tensors):] {
		scalars = append(scalars, t.s.In[k].Scalar)
	}
	numbered := t.numbered(in, scalars)
	for j := range t.k.Vector {
		var args []reg
		for a, k := range tensors {
			switch {
			case k < 0:
				args = append(args, made[-1-k][j])
			case t.s.In[k].Scalar >= 0:
				x, d := t.s.In[k].Scalar, d
				if in.Op == tensor.OpWhere && a == 0 {
					d = tensor.Bool
				}
				args = append(args, t.scalar(fmt.Sprint(d, x), d, func(s []float64) float64 { return s[x] }))
			default:
				args = append(args, t.values[k][j])
			}
		}
		var r reg
		if numbered != nil {
			r = numbered(j, args)
		} else {
			r = t.operation(in.Op, d, in.DType, args, own)
		}
		if r == "" {
			return nil
		}
		out = append(out, r)
	}
	return out
}

// own returns an operation's own scalars, which are operands at.
func (t *tiler) own(in *compile.Inst, d tensor.DType, at []int) []reg {
	var numbers []int
	for _, k := range at {
		numbers = append(numbers, t.s.In[k].Scalar)
	}
	var out []reg
	for i, of := range ownOf(in.Op) {
		key := fmt.Sprint(d, in.Op, i, numbers)
		out = append(out, t.scalar(key, d, func(s []float64) float64 {
			mine := make([]float64, len(numbers))
			for k, n := range numbers {
				mine[k] = s[n]
			}
			return of(mine)
		}))
	}
	return out
}

// scalar returns the register of a scalar, which it loads if there is none of that key.
func (t *tiler) scalar(key string, d tensor.DType, of func([]float64) float64) reg {
	return t.fromPage(key, NewScalar(d, of))
}

// fromPage returns the register of a scalar. Those of one key are the same.
func (t *tiler) fromPage(key string, s Scalar) reg {
	if r, ok := t.scalars[key]; ok {
		return r
	}
	f := forms[s.DType]
	if t.page == "" {
		t.page = t.op(b64, "cvta.to.global.u64", t.op(b64, "ld.param.u64", "[s]"))
	}
	r := t.op(f.class, "ld.global."+types[f.class], reg(fmt.Sprintf("[%s+%d]", t.page, 8*len(t.k.Scalars))))
	t.scalars[key] = r
	t.k.Scalars = append(t.k.Scalars, s)
	return r
}

// text returns the whole module.
func (t *tiler) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 7.5\n.target sm_80\n.address_size 64\n\n.visible .entry %s(\n", Name)
	for k := range t.k.Tensors {
		fmt.Fprintf(&b, "\t.param .u64 t%d,\n", k)
	}
	if len(t.k.Scalars) > 0 {
		b.WriteString("\t.param .u64 s,\n")
	}
	fmt.Fprintf(&b, "\t.param .u32 n\n)\n.maxntid %d, 1, 1\n{\n%s%sdone:\n\tret;\n}\n", Threads, t.declarations(), t.body.String())
	return b.String()
}
