package explain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/explain"
)

// recorder is an engine that keeps the last program and runs none.
type recorder struct{ last *tensor.Program }

func (r *recorder) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		r.last = b.Program.Clone()
	}
	return nil, nil
}

func (r *recorder) Name() string                       { return "recorder" }
func (r *recorder) Alloc(n int) (tensor.Buffer, error) { return heap(make([]byte, n)), nil }
func (r *recorder) Close() error                       { return nil }

type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

// product returns the program of relu(x y + b), whose result is kept.
func product(tb testing.TB) *tensor.Program {
	r := &recorder{}
	s := tensor.NewSession(r, nil)
	x := tensor.From(s, make([]float32, 6), 2, 3)
	y := tensor.From(s, make([]float32, 12), 3, 4)
	b := tensor.From(s, make([]float32, 4), 4)
	if err := s.Sync(); err != nil {
		tb.Fatal(err)
	}
	s.Scope(func(sc *tensor.Scope) { sc.Keep(x.Matmul(y).Add(b).ReLU()) })
	if err := s.Sync(); err != nil {
		tb.Fatal(err)
	}
	return r.last
}

// TestForms compares the text, the graphs and the data of one program.
func TestForms(t *testing.T) {
	for _, noFuse := range []bool{false, true} {
		p := explain.Compile(product(t), &explain.Options{NoFuse: noFuse})
		want := map[bool]int{false: 1, true: 3}[noFuse]
		var text strings.Builder
		times := make([]time.Duration, p.Steps())
		for i := range times {
			times[i] = time.Duration(i+1) * 1500 * time.Nanosecond
		}
		if err := p.WriteText(&text, times); err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(p.Document(times))
		if err != nil {
			t.Fatal(err)
		}
		var d explain.Document
		if err := json.Unmarshal(encoded, &d); err != nil {
			t.Fatal(err)
		}
		if p.Steps() != want || len(d.Steps) != want || d.Stats != p.Stats() || d.Stats.Steps != want {
			t.Errorf("fused %v: %d steps, %d in the document, %+v; expected %d", !noFuse, p.Steps(), len(d.Steps), d.Stats, want)
		}
		if got := *d.Steps[0].Microseconds; got != 1.5 || !strings.Contains(text.String(), "      1.5  ") {
			t.Errorf("fused %v: the first step took %v us, expected 1.5, in\n%v", !noFuse, got, &text)
		}
		if !strings.HasPrefix(text.String(), "program "+d.Hash+"\n") || !strings.Contains(text.String(), p.Summary()) {
			t.Errorf("fused %v: the text has neither hash %s nor summary:\n%v", !noFuse, d.Hash, &text)
		}
		// The program has five edges: x, y, the product, b, the sum. So has an unfused
		// plan; a fused one reads x, y and b alone.
		edges := map[bool]int{false: 3, true: 5}[noFuse]
		if got := strings.Count(p.Dot(), " -> "); got != edges {
			t.Errorf("fused %v: %d edges, expected %d in\n%s", !noFuse, got, edges, p.Dot())
		}
		if got := strings.Count(p.DotProgram(), " -> "); got != 5 {
			t.Errorf("%d edges, expected 5 in\n%s", got, p.DotProgram())
		}
	}
}

func ExamplePlan_Document() {
	p := explain.Compile(product(nil), nil)
	for _, s := range p.Document(nil).Steps {
		fmt.Println(s.Name, s.Kind, s.Operations)
	}
	// Output: {matmul add relu} epilogue [%0 matmul %1 add %2 relu]
}
