package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Hint is a request for the layout of the tensors of a signal (tensor.Session.Signal).
type Hint struct {
	// Layout has no Partial. A negative dim counts from the tensor's last: Shard(-1).
	Layout Layout
	// Even has Rewrite refuse a program if a dim that is cut cannot be divided equally
	// among the ranks. Without Even some ranks get one row more than others, or no row.
	Even bool
}

// Signals are hints by signal. A backward signal has an entry of its own. A * in a name
// stands for any characters. If several names match, the one without * applies, else the
// longest.
//
// A name may have two parts with a slash between. An optimizer keeps the state of a
// parameter p under state/p, for example. If there is no entry for state/p, the entries
// for state and for p apply together: the layout is that of p, and along those dims of
// the mesh that do not cut p, that of state. So the state is cut where its parameter is,
// and may be cut further.
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

// Speaks reports whether an entry named entry, which may have a *, can apply to a tensor
// with signal sig. An entry that matches either part of state/p can apply to it.
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
	signals := slices.SortedFunc(maps.Keys(g), func(a, b tensor.Signal) int { return cmp.Compare(a.String(), b.String()) })
	for _, sig := range signals {
		for k, p := range g[sig].Layout {
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

// fit returns the layout of a tensor of shape s under the hint for sig, whole if there is
// no hint, and the error of a tensor that can't lie so. Without a mesh it does not check
// even cuts.
func (g Signals) fit(sig tensor.Signal, m Mesh, s tensor.Shape) (l Layout, hinted bool, bad *SignalError) {
	h, hinted := g.hint(sig)
	l = h.Layout
	for k := range l {
		d, cut := l[k].Sharded()
		if !cut {
			continue
		}
		if d < -len(s) || d >= len(s) {
			from := g.source(sig, func(o Hint) bool { return o.Layout[k] == l[k] })
			return Layout{}, true, &SignalError{Signal: sig, Hint: from, Shape: s, Axis: d}
		}
		if d < 0 {
			l[k] = Shard(d + len(s))
		}
	}
	l = m.normal(l)
	if d, cuts, uneven := uneven(m, l, s); h.Even && uneven {
		from := g.source(sig, func(o Hint) bool { return o.Even })
		bad = &SignalError{Signal: sig, Hint: from, Shape: s, Axis: d, Cuts: cuts}
	}
	return l, hinted, bad
}

// Made returns the layout of a tensor that was made under a signal: whole if there is no
// hint, or one for a dim that the tensor lacks. The error is a *SignalError if the hint
// wants an even cut of a dim that cannot be cut evenly.
func (g Signals) Made(sig tensor.Signal, m Mesh, s tensor.Shape) (Layout, error) {
	l, _, bad := g.fit(sig, m, s)
	if bad != nil && bad.Cuts > 0 {
		return l, bad
	}
	return l, nil
}

// named returns the layout of a tensor that was named by itself. A hint for a dim that it
// lacks is an error.
func (g Signals) named(sig tensor.Signal, m Mesh, s tensor.Shape) (Layout, bool, error) {
	l, hinted, bad := g.fit(sig, m, s)
	if bad != nil {
		return l, hinted, bad
	}
	return l, hinted, nil
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
		var err error
		if out[i], err = hints.Made(sig, m, s); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
	}
	return out, nil
}

// signalled is a tensor of a program with a signal: an input, a leaf, or a result that
// was named by itself.
type signalled struct {
	ref   tensor.Ref
	sig   tensor.Signal
	shape tensor.Shape
	named bool
}

// signalledOf returns those of p, inputs first.
func signalledOf(p *tensor.Program) (all []signalled) {
	for i := range p.Externals {
		r := tensor.ExternalRef(i)
		if sig, ok := p.SignalOf(r); ok {
			_, s := p.TypeOf(r)
			all = append(all, signalled{r, sig, s, false})
		}
	}
	for i, in := range p.Instrs {
		r, s := tensor.Ref(i), p.Shapes[in.Shape]
		if sig, ok := p.SignalOf(r); ok && in.Op.Info().Class == tensor.ClassLeaf {
			all = append(all, signalled{r, sig, s, false})
		}
		if sig, ok := p.NameOf(i); ok {
			all = append(all, signalled{r, sig, s, true})
		}
	}
	return all
}

// Explain describes in words, a line each, what the hints mean for p's inputs, leaves and
// named results. It lists the hints that apply to nothing.
func (g Signals) Explain(p *tensor.Program, m Mesh) string {
	var b strings.Builder
	used := map[string]bool{}
	for _, t := range signalledOf(p) {
		l, hinted, bad := g.fit(t.sig, m, t.shape)
		if !hinted {
			continue
		}
		used[t.sig.String()] = true
		what := t.ref.String()
		if i, ok := t.ref.Instr(); ok {
			what = fmt.Sprintf("%%%d %v", i, p.Instrs[i].Op)
		}
		d, _ := p.TypeOf(t.ref)
		fmt.Fprintf(&b, "%s %v%v: %v ", what, d, t.shape, t.sig)
		var cuts []string
		for k := range m {
			if d, cut := l[k].Sharded(); cut {
				cuts = append(cuts, fmt.Sprintf("in dim %d along %s", d, m[k].Name))
			}
		}
		switch {
		case bad != nil && (bad.Cuts > 0 || t.named):
			b.WriteString("has no such layout\n")
		case bad != nil:
			fmt.Fprintf(&b, "does not apply to a tensor of %d dims\n", len(t.shape))
		case cuts == nil:
			b.WriteString("keeps it whole\n")
		default:
			fmt.Fprintf(&b, "cuts it %s\n", strings.Join(cuts, " and "))
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
