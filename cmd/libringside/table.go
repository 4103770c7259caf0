package main

import (
	"encoding/json"
	"sync"

	"github.com/ringside-go/ringside/tensor"
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
		Gradient int      `json:"gradient"`
		Doc      string   `json:"doc"`
	}
	var t struct {
		Ops    []row          `json:"ops"`
		DTypes map[string]int `json:"dtypes"`
	}
	for _, op := range tensor.Ops() {
		i := op.Info()
		t.Ops = append(t.Ops, row{i.Name, int(op), i.Class.String(), i.MinTensors, i.MaxTensors, i.Scalars, i.Ints, i.Random, int(i.Gradient), i.Doc})
	}
	t.DTypes = map[string]int{}
	for _, d := range tensor.DTypes() {
		t.DTypes[d.String()] = int(d)
	}
	text, err := json.Marshal(t)
	return string(text), err
}

// signals are the names of signals, which calls have by number, from 1.
var signals names

// names numbers names. Any goroutine may call its methods.
type names struct {
	mu   sync.RWMutex
	all  []string
	byID map[string]int
}

// number returns the number of a name that a signal can have.
func (n *names) number(name string) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.byID[name]; ok {
		return id, nil
	}
	if err := tensor.CheckSignalName(name); err != nil {
		return 0, err
	}
	if len(n.all) == 1<<signalBits-1 {
		return 0, tensor.ErrSignal
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
