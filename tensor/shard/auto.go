package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

// AutoOptions change how Auto chooses; nil and the zero value are the defaults.
type AutoOptions struct {
	// LargeBytes is the least size of a matrix that Auto cuts along the mesh's last dim;
	// the default is 4 MiB.
	LargeBytes int64

	// Signals are hints that Auto follows. It chooses the layout of tensors without a
	// hint.
	Signals Signals

	// The assumed speed of workers. Only the ratios matter.
	FlopsPerSecond float64       // of matrix products; default 50e9
	ElemsPerSecond float64       // of all other operations; default 1e9
	BytesPerSecond float64       // sent by a rank; default 4e9
	Call           time.Duration // of a collective, besides its bytes; default 10 µs
}

func (o *AutoOptions) defaults() AutoOptions {
	d := *cmp.Or(o, &AutoOptions{})
	d.LargeBytes, d.Call = cmp.Or(d.LargeBytes, 4<<20), cmp.Or(d.Call, 10*time.Microsecond)
	d.FlopsPerSecond, d.ElemsPerSecond = cmp.Or(d.FlopsPerSecond, 50e9), cmp.Or(d.ElemsPerSecond, 1e9)
	d.BytesPerSecond = cmp.Or(d.BytesPerSecond, 4e9)
	return d
}

// Chosen holds the layouts of a program's external inputs, and the reasons, a line each.
type Chosen struct {
	Inputs []Layout
	Why    string
}

// Auto chooses layouts for the external inputs of p. It considers a batch by rows along
// the first dim of the mesh, and large matrices by rows or columns along the last dim. It
// estimates the time of each choice from the work of the busiest rank, the bytes that it
// sends and the number of collectives, and takes the fastest. The state of an optimizer
// lies as its parameter does.
//
// It returns ErrMesh for an invalid mesh.
func Auto(p *tensor.Program, m Mesh, o *AutoOptions) (*Chosen, error) {
	a := auto{p: p, m: m, o: o.defaults(), said: make([]bool, len(p.Externals))}
	var err error
	if a.best, err = Place(p, m, a.o.Signals); err != nil {
		return nil, err
	}
	for i := range a.said {
		if sig, ok := p.SignalOf(tensor.ExternalRef(i)); ok {
			_, a.said[i] = a.o.Signals.hint(sig)
		}
	}
	if a.time, err = a.estimate(a.best); err != nil {
		return nil, err
	}
	what := "everything"
	if len(a.o.Signals) > 0 {
		what = "everything but what signals say"
	}
	a.say("%s whole on every worker: %v", what, a.time)
	if err := a.batch(); err != nil {
		return nil, err
	}
	if err := a.matrices(); err != nil {
		return nil, err
	}
	return &Chosen{a.best, a.why.String()}, nil
}

type auto struct {
	p    *tensor.Program
	m    Mesh
	o    AutoOptions
	best []Layout
	said []bool // has a hint
	time time.Duration
	why  strings.Builder
}

func (a *auto) say(format string, args ...any) { fmt.Fprintf(&a.why, format+"\n", args...) }

// estimate returns the time that a plan with these inputs takes.
func (a *auto) estimate(in []Layout) (time.Duration, error) {
	p, err := Rewrite(a.p, a.m, in, &Options{Signals: a.o.Signals})
	if err != nil {
		return 0, err
	}
	flops, elems := 0.0, 0.0
	calls := 0
	for _, s := range p.Ranks[0].Steps {
		if s.Kind == Start {
			calls++
		}
		if s.Kind != RunProgram {
			continue
		}
		q := s.Run.Program
		for i, x := range q.Instrs {
			n := float64(q.Shapes[x.Shape].Elems())
			switch x.Op.Info().Class {
			case tensor.ClassContraction:
				_, b := q.TypeOf(q.ArgsOf(i)[1])
				_, l := q.TypeOf(q.ArgsOf(i)[0])
				k := float64(l[len(l)-1])
				if x.Op != tensor.OpMatmul {
					k = float64(b.Elems()) / float64(max(b[0], 1))
				}
				flops += 2 * n * k
			case tensor.ClassView:
			default:
				elems += n
			}
		}
	}
	owed := p.Stats.Bytes // and the bytes that folding partial results will send
	for _, out := range p.Outputs {
		if out.Layout.partial() {
			_, n := a.m.path(out.DType, out.Shape, out.Layout, Layout{})
			owed += n
			calls++
		}
	}
	seconds := flops/a.o.FlopsPerSecond + elems/a.o.ElemsPerSecond + float64(owed)/a.o.BytesPerSecond
	// The estimate is not more precise than a microsecond.
	return (time.Duration(seconds*1e9) + time.Duration(calls)*a.o.Call).Round(time.Microsecond), nil
}

// state reports for each external whether an optimizer updates it.
func (a *auto) state() []bool {
	state := make([]bool, len(a.p.Externals))
	for i, in := range a.p.Instrs {
		if update(in.Op) {
			if k, ok := a.p.ArgsOf(i)[0].External(); ok {
				state[k] = true
			}
		}
	}
	return state
}

// try keeps in if it is faster by at least a twentieth; a smaller gain is within the
// error of the estimate. If in saves memory it needs only to be no slower.
func (a *auto) try(in []Layout, saves bool) (time.Duration, bool, error) {
	t, err := a.estimate(in)
	if most := a.time - a.time/20; err != nil || t > most && !(saves && t <= a.time) {
		return t, false, err
	}
	a.best, a.time = in, t
	return t, true, nil
}

// batch tries to cut the data inputs by rows, for each size of their first dim.
func (a *auto) batch() error {
	ranks := a.m[0].Size
	if ranks == 1 {
		return nil
	}
	state := a.state()
	sizes := map[int][]int{}
	var order []int
	for i := range a.p.Externals {
		_, s := a.p.TypeOf(tensor.ExternalRef(i))
		if state[i] || a.said[i] || len(s) == 0 || s[0] < ranks {
			continue
		}
		if sizes[s[0]] == nil {
			order = append(order, s[0])
		}
		sizes[s[0]] = append(sizes[s[0]], i)
	}
	slices.Sort(order)
	whole, found := slices.Clone(a.best), ""
	for _, n := range order {
		in := slices.Clone(whole)
		for _, i := range sizes[n] {
			in[i][0] = Shard(0)
		}
		t, better, err := a.try(in, false)
		if err != nil {
			return err
		}
		a.say("inputs of %d rows, %s, by rows along %s: %v", n, names(sizes[n]), a.m[0].Name, t)
		if better {
			found = fmt.Sprintf("so the inputs of %d rows, %s, are cut by rows", n, names(sizes[n]))
		}
	}
	if found != "" {
		a.say("%s", found)
	} else {
		a.say("so no batch is cut")
	}
	return nil
}

func names(in []int) string {
	var s []string
	for _, i := range in {
		s = append(s, fmt.Sprintf("in%d", i))
	}
	return strings.Join(s, " ")
}

// matrices tries to cut large matrices and their optimizer state along the last dim of
// the mesh.
func (a *auto) matrices() error {
	k := len(a.m) - 1
	if a.m[k].Size == 1 {
		return nil
	}
	for _, l := range a.best {
		// Ranks with other rows need the whole matrix.
		if l[k] != Replicate {
			a.say("matrices stay whole: the batch is cut along %s", a.m[k].Name)
			return nil
		}
	}
	for i := range a.p.Externals {
		d, s := a.p.TypeOf(tensor.ExternalRef(i))
		if len(s) != 2 || int64(s.Elems()*d.Size()) < a.o.LargeBytes || a.said[i] || a.best[i] != (Layout{}) {
			continue
		}
		chosen := ""
		base := a.best
		for dim, word := range []string{"rows", "columns"} {
			in := slices.Clone(base)
			in[i][k] = Shard(dim)
			for _, j := range a.siblings(i) {
				if !a.said[j] {
					in[j][k] = Shard(dim)
				}
			}
			t, better, err := a.try(in, chosen == "")
			if err != nil {
				return err
			}
			a.say("in%d %v%v by %s along %s: %v", i, d, s, word, a.m[k].Name, t)
			if better {
				chosen = word
			}
		}
		if chosen != "" {
			a.say("so in%d is cut by %s", i, chosen)
		} else {
			a.say("so in%d stays whole", i)
		}
	}
	return nil
}

// siblings returns the externals that an update combines with external i: the moments of
// a parameter.
func (a *auto) siblings(i int) (out []int) {
	for k, in := range a.p.Instrs {
		if !update(in.Op) {
			continue
		}
		var near []int
		for _, r := range a.p.ArgsOf(k) {
			// a moment that is updated in this program
			if j, ok := r.Instr(); ok && update(a.p.Instrs[j].Op) {
				r = a.p.ArgsOf(j)[0]
			}
			if j, ok := r.External(); ok {
				near = append(near, j)
			}
		}
		if slices.Contains(near, i) {
			for _, j := range near {
				if j != i && !slices.Contains(out, j) {
					out = append(out, j)
				}
			}
		}
	}
	return out
}
