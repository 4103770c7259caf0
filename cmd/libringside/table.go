package main

import (
	"encoding/json"
	"sync"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// tableJSON returns the op table and the element types, so that a client needs no list of
// its own.
func tableJSON() (string, error) {
	type row struct {
		Name     string   `json:"name"`
		Number   int      `json:"number"`
		Class    string   `json:"class"`
		Min      int      `json:"min"`
		Max      int      `json:"max"`
		Scalars  []string `json:"scalars"`
		Ints     string   `json:"ints"`
		Random   bool     `json:"random"`
		Fallible bool     `json:"fallible"` // its errors name a line
		Gradient int      `json:"gradient"`
		Doc      string   `json:"doc"`
	}
	var t struct {
		Ops    []row          `json:"ops"`
		DTypes map[string]int `json:"dtypes"`
	}
	for _, op := range tensor.Ops() {
		i := op.Info()
		t.Ops = append(t.Ops, row{i.Name, int(op), i.Class.String(), i.MinTensors, i.MaxTensors, i.Scalars, i.Ints, i.Random, i.Fallible, int(i.Gradient), i.Doc})
	}
	t.DTypes = map[string]int{}
	for _, d := range tensor.DTypes() {
		t.DTypes[d.String()] = int(d)
	}
	text, err := json.Marshal(t)
	return string(text), err
}

// signals are the names of signals, which calls have by number, from 1.
var signals = names{most: 1<<signalBits - 1, check: tensor.CheckSignalName, full: tensor.ErrSignal}

// lines are those of the caller's program, which the calls of a record have by number.
// Where there are too many, their numbers are 0.
var lines = names{most: 1 << 16}

// names numbers names. Any goroutine may call its methods.
type names struct {
	most  int
	check func(name string) error // nil if any name will do
	full  error                   // of a name beyond most

	mu   sync.RWMutex
	all  []string
	byID map[string]int
}

// number returns the number of a name.
func (n *names) number(name string) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.byID[name]; ok {
		return id, nil
	}
	if n.check != nil {
		if err := n.check(name); err != nil {
			return 0, err
		}
	}
	if len(n.all) == n.most {
		return 0, n.full
	}
	if n.byID == nil {
		n.byID = map[string]int{}
	}
	n.all = append(n.all, name)
	n.byID[name] = len(n.all)
	return len(n.all), nil
}

// name returns the name of a number, which is empty if there is none.
func (n *names) name(id int) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if id < 1 || id > len(n.all) {
		return ""
	}
	return n.all[id-1]
}

// tape describes the program that is being recorded as JSON: an instruction with its
// result a row, whose arguments are instructions (%N), inputs (inN) and numbers (sN).
func (s *session) tape() (string, error) {
	p, err := s.s.Tape()
	if err = s.end(err); err != nil {
		return "", err
	}
	type row struct {
		Op     string   `json:"op"`
		DType  string   `json:"dtype"`
		Shape  []int    `json:"shape"`
		Args   []string `json:"args"`
		Ints   []int64  `json:"ints,omitempty"`
		Signal string   `json:"signal,omitempty"`
	}
	rows := make([]row, 0, len(p.Instrs))
	for i := range p.Instrs {
		in := &p.Instrs[i]
		r := row{Op: in.Op.String(), DType: in.DType.String(), Shape: p.Shapes[in.Shape], Ints: p.Ints[in.Int:][:in.NInt]}
		for _, a := range p.Args[in.Arg:][:in.NArg] {
			r.Args = append(r.Args, a.String())
		}
		if in.Signal > 0 {
			r.Signal = p.Signals[in.Signal-1].String()
		}
		rows = append(rows, r)
	}
	text, err := json.Marshal(rows)
	return string(text), err
}

// configJSON reads a config of placements and returns it as JSON: the number of workers,
// whether any other fits too, and the signals by name.
func configJSON(file, text string) (string, error) {
	c, err := config.Parse(file, []byte(text))
	if err != nil {
		return "", err
	}
	signals := map[string]any{}
	for _, g := range c.Signals {
		s := map[string]any{"workers": g.Workers, "backward": g.Backward, "compile": g.Compile}
		if g.Shard != nil {
			s["shard"] = map[string]any{"axis": g.Shard.Axis, "along": g.Shard.Along, "even": g.Shard.Even}
		}
		signals[g.Name] = s
	}
	out, err := json.Marshal(map[string]any{"workers": c.Workers(), "fits_any": c.FitsAny(), "auto_shard": c.AutoShard, "signals": signals})
	return string(out), err
}
