package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Hint is a request for the layout of the tensors of a signal (tensor.Session.Signal).
type Hint struct {
	// Layout has no Partial. A negative dim counts from the tensor's last: Shard(-1).
	Layout Layout
	// Even rejects a dim that the number of ranks doesn't divide. Without it some ranks
	// get one row more than others, or none.
	Even bool
}

// Signals are hints by signal. A backward signal has an entry of its own. A * in a name
// stands for any characters. A name without * takes precedence, then the longest name
// with one.
//
// A signal state/wide without an entry has the hints of both parts: that of wide, and
// that of state along the dims of the mesh where wide is whole. So the state that an
// optimizer keeps for a parameter lies as the parameter does, and may be cut further.
type Signals map[tensor.Signal]Hint

// find returns the entry of m for a signal.
func find[V any](m map[tensor.Signal]V, sig tensor.Signal) (v V, ok bool) {
	key, ok := findKey(m, sig)
	return m[key], ok
}

// findKey returns the key of the entry of m for a signal.
func findKey[V any](m map[tensor.Signal]V, sig tensor.Signal) (best tensor.Signal, ok bool) {
	if _, ok = m[sig]; ok {
		return sig, true
	}
	for k := range m {
		if k.Backward == sig.Backward && strings.Contains(k.Name, "*") && matches(k.Name, sig.Name) &&
			(!ok || len(k.Name) > len(best.Name) || len(k.Name) == len(best.Name) && k.Name < best.Name) {
			best, ok = k, true
		}
	}
	return best, ok
}

// hint returns the hint for a signal.
func (g Signals) hint(sig tensor.Signal) (Hint, bool) {
	h, ok := find(g, sig)
	kind, of, both := strings.Cut(sig.Name, "/")
	if ok || !both {
		return h, ok
	}
	h, ok = g.hint(tensor.Signal{Name: of, Backward: sig.Backward})
	left, too := g.hint(tensor.Signal{Name: kind, Backward: sig.Backward})
	for k, p := range left.Layout {
		if h.Layout[k] == Replicate {
			h.Layout[k] = p
		}
	}
	h.Even = h.Even || left.Even
	return h, ok || too
}

// Speaks reports whether an entry with that name, which may have a *, can apply to a
// tensor with that signal. Entries for both parts apply to state/wide.
func Speaks(entry string, sig tensor.Signal) bool {
	if matches(entry, sig.Name) {
		return true
	}
	kind, of, both := strings.Cut(sig.Name, "/")
	return both && (matches(entry, kind) || Speaks(entry, tensor.Signal{Name: of}))
}

// matches reports whether name is pattern with each * replaced by any characters.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return strings.HasSuffix(name, last)
}

// on returns the layout of h for a tensor of shape s on m, or false if the tensor lacks
// the dim.
func (h Hint) on(m Mesh, s tensor.Shape) (l Layout, ok bool, err error) {
	l = h.Layout
	for k := range l {
		d, cut := l[k].Sharded()
		if !cut {
			continue
		}
		if d < 0 {
			d += len(s)
		}
		if d < 0 || d >= len(s) {
			return Layout{}, false, nil
		}
		l[k] = Shard(d)
	}
	l = m.normal(l)
	if h.Even {
		if d, cuts, ok := uneven(m, l, s); ok {
			return l, true, fmt.Errorf("%w: dim %d of %v is to be cut evenly in %d", ErrPlacement, d, s, cuts)
		}
	}
	return l, true, nil
}

// uneven returns the first dim of s that l cuts into unequal parts on m, and the number
// of parts.
func uneven(m Mesh, l Layout, s tensor.Shape) (dim, cuts int, ok bool) {
	for d, n := range s {
		cuts := 1
		for k := range m {
			if at, ok := l[k].Sharded(); ok && at == d {
				cuts *= m[k].Size
			}
		}
		if n%cuts != 0 {
			return d, cuts, true
		}
	}
	return 0, 0, false
}

// check returns an error for a hint that no tensor on m can have.
func (g Signals) check(m Mesh) error {
	for sig, h := range g {
		for k, p := range h.Layout {
			switch {
			case p.kind == partial:
				return fmt.Errorf("%w: signal %v: %v, expected Replicate or Shard", ErrPlacement, sig, p)
			case k >= len(m) && p != Replicate:
				return fmt.Errorf("%w: signal %v: %v along dim %d of a mesh of %d dims", ErrPlacement, sig, p, k, len(m))
			}
		}
	}
	return nil
}

// Made returns the layout of a tensor that was made under a signal: whole if there is no
// hint, or one for a dim that the tensor lacks. The error is ErrPlacement if the hint
// wants an even cut of a dim that cannot be cut evenly.
func (g Signals) Made(sig tensor.Signal, m Mesh, s tensor.Shape) (Layout, error) {
	h, ok := g.hint(sig)
	if !ok {
		return Layout{}, nil
	}
	l, ok, err := h.on(m, s)
	if err != nil {
		return l, fmt.Errorf("signal %v: %w", sig, err)
	}
	if !ok {
		return Layout{}, nil
	}
	return l, nil
}

// named returns the layout of a tensor that was named by itself. A hint for a dim that it
// lacks is an error.
func (g Signals) named(sig tensor.Signal, m Mesh, s tensor.Shape) (l Layout, hinted bool, err error) {
	h, ok := g.hint(sig)
	if !ok {
		return Layout{}, false, nil
	}
	l, ok, err = h.on(m, s)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s of a tensor %v, expected a dim of %d to %d", ErrPlacement, h.Layout.show(len(m)), s, -len(s), len(s)-1)
	}
	if err != nil {
		return l, true, fmt.Errorf("signal %v: %w", sig, err)
	}
	return l, true, nil
}

// Place returns the layouts of the external inputs of p: those of the hints for their
// signals, else whole on every rank. It ignores hints for dims that a tensor lacks.
//
// It returns ErrMesh for an invalid mesh, and ErrPlacement, with the signal, for a hint
// that no tensor can have or that wants an even cut of a dim that cannot be cut evenly.
func Place(p *tensor.Program, m Mesh, hints Signals) ([]Layout, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := hints.check(m); err != nil {
		return nil, err
	}
	out := make([]Layout, len(p.Externals))
	for i := range out {
		r := tensor.ExternalRef(i)
		sig, ok := p.SignalOf(r)
		if !ok {
			continue
		}
		_, s := p.TypeOf(r)
		l, err := hints.Made(sig, m, s)
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		out[i] = l
	}
	return out, nil
}

// Explain describes in words, a line each, what the hints mean for p's inputs, leaves and
// named results. It lists the hints that apply to nothing.
func (g Signals) Explain(p *tensor.Program, m Mesh) string {
	var b strings.Builder
	used := map[string]bool{}
	say := func(what string, sig tensor.Signal, s tensor.Shape, named bool) {
		h, ok := g.hint(sig)
		if !ok {
			return
		}
		used[sig.String()] = true
		l, fits, err := h.on(m, s)
		var cuts []string
		for k := range m {
			if d, cut := l[k].Sharded(); cut {
				cuts = append(cuts, fmt.Sprintf("in dim %d along %s", d, m[k].Name))
			}
		}
		switch {
		case err != nil || !fits && named:
			fmt.Fprintf(&b, "%s: %v has no such layout\n", what, sig)
		case !fits:
			fmt.Fprintf(&b, "%s: %v does not apply to a tensor of %d dims\n", what, sig, len(s))
		case cuts == nil:
			fmt.Fprintf(&b, "%s: %v keeps it whole\n", what, sig)
		default:
			fmt.Fprintf(&b, "%s: %v cuts it %s\n", what, sig, strings.Join(cuts, " and "))
		}
	}
	for i := range p.Externals {
		r := tensor.ExternalRef(i)
		if sig, ok := p.SignalOf(r); ok {
			d, s := p.TypeOf(r)
			say(fmt.Sprintf("%v %v%v", r, d, s), sig, s, false)
		}
	}
	for i, in := range p.Instrs {
		d, s := p.TypeOf(tensor.Ref(i))
		what := fmt.Sprintf("%%%d %v %v%v", i, in.Op, d, s)
		if sig, ok := p.SignalOf(tensor.Ref(i)); ok && in.Op.Info().Class == tensor.ClassLeaf {
			say(what, sig, s, false)
		}
		if sig, ok := p.NameOf(i); ok {
			say(what, sig, s, true)
		}
	}
	var idle []string
	for sig := range g {
		hit := used[sig.String()]
		for _, q := range p.Signals {
			for _, name := range append([]string{q.Name}, strings.Split(q.Name, "/")...) {
				hit = hit || sig.Backward == q.Backward && matches(sig.Name, name) && used[q.String()]
			}
		}
		if !hit {
			idle = append(idle, sig.String())
		}
	}
	slices.Sort(idle)
	for _, n := range idle {
		fmt.Fprintf(&b, "%s: no tensor of the program has it\n", n)
	}
	return b.String()
}
