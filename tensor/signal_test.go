package tensor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// signalled records a program with nested scopes, a named result and a named input.
func signalled(t testing.TB) Batch {
	r := &recorder{}
	s := NewSession(r, nil)
	var x, w *Tensor
	s.Signal("batch", func() { x = From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3) })
	s.Signal("outer", func() {
		w = Ones(s, F32, 3, 4)
		s.Signal("inner", func() { x = x.Matmul(w).Signal("cut") })
		x = x.ReLU()
	})
	x.Sum(0).Mul(From(s, []float32{1, 2, 3, 4}).Signal("bias"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	return r.last()
}

func TestSignals(t *testing.T) {
	b := signalled(t)
	want := `in0 f32[2 3] @batch
in1 f32[4] @bias
%0 = full f32[3 4] s0 [1 3 4] keep @outer
%1 = matmul f32[2 4] in0 %0 keep @inner as cut
%2 = relu f32[2 4] %1 keep @outer
%3 = sum f32[4] %2 [0 0] keep
%4 = mul f32[4] %3 in1 keep
`
	if got := b.Program.String(); got != want {
		t.Errorf("recorded\n%s\nexpected\n%s", got, want)
	}
	p, err := ParseProgram(b.Encoded)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, b.Program) || p.EncodedSize() != len(b.Encoded) || !bytes.Equal(p.Append(nil), b.Encoded) {
		t.Errorf("parsed\n%v\nof %d bytes, EncodedSize %d", p, len(b.Encoded), p.EncodedSize())
	}
	if g, ok := p.SignalOf(ExternalRef(0)); !ok || g != (Signal{Name: "batch"}) {
		t.Errorf("the first input has signal %v, %v", g, ok)
	}
	if g, ok := p.NameOf(1); !ok || g != (Signal{Name: "cut"}) {
		t.Errorf("%%1 is named %v, %v", g, ok)
	}
	if g, ok := p.SignalOf(3); ok {
		t.Errorf("%%3 has signal %v", g)
	}
}

// TestGoldenSignals fixes version 2. A program without signals is version 1, which
// TestGoldenBytes fixes.
func TestGoldenSignals(t *testing.T) {
	const file = "testdata/program_v2.hex"
	got := hex.EncodeToString(signalled(t).Encoded) + "\n"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the encoding changed; %s has %d digits, now %d:\n%s", file, len(want), len(got), got)
	}
	if v := sample(t).Encoded[4]; v != 1 {
		t.Errorf("a program without signals has version %d", v)
	}
}

// TestSignalsAcrossPrograms: a signal is part of a program's identity, and outlives the
// program in which a tensor was made.
func TestSignalsAcrossPrograms(t *testing.T) {
	r := &recorder{}
	s := NewSession(r, nil)
	var w *Tensor
	s.Signal("state", func() { w = Zeros(s, F32, 4) })
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	var last Hash
	for step := range 3 {
		s.Signal("step", func() {
			y := w.AddS(1)
			if err := w.Assign(y); err != nil {
				t.Fatal(err)
			}
			y.Free()
		})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		b := r.last()
		if g, ok := b.Program.SignalOf(ExternalRef(0)); !ok || g.Name != "state" {
			t.Errorf("step %d: the tensor has signal %v, %v", step, g, ok)
		}
		if step > 0 && b.Hash != last {
			t.Errorf("step %d is another program:\n%v", step, b.Program)
		}
		last = b.Hash
	}
	y := w.AddS(1)
	if err := w.Assign(y); err != nil {
		t.Fatal(err)
	}
	y.Free()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if r.last().Hash == last {
		t.Error("without its scope it is the same program")
	}
}

// TestSignalAcrossFlush: a full program is flushed inside a scope, and the next program
// belongs to the scope too.
func TestSignalAcrossFlush(t *testing.T) {
	r := &recorder{}
	s := NewSession(r, nil)
	x := Zeros(s, F32, 2)
	s.Signal("long", func() {
		for range MaxInstrs {
			x = x.AddS(1)
		}
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(r.batches) < 3 {
		t.Fatalf("%d programs", len(r.batches))
	}
	for k, b := range r.batches {
		n := len(b.Program.Instrs)
		if g, ok := b.Program.SignalOf(Ref(n - 1)); !ok || g.Name != "long" {
			t.Errorf("program %d ends in signal %v, %v", k, g, ok)
		}
		if len(b.Encoded) > MaxProgramBytes {
			t.Errorf("program %d has %d bytes", k, len(b.Encoded))
		}
	}
}

// TestSignalEnds: the scope ends with its function, even by a panic.
func TestSignalEnds(t *testing.T) {
	s := NewSession(&recorder{}, nil)
	func() {
		defer func() { _ = recover() }()
		s.Signal("a", func() { panic("out") })
	}()
	x := Zeros(s, F32, 1)
	if s.rec.signals.now != 0 || x.v.signal != 0 {
		t.Errorf("signal %d after its scope", s.rec.signals.now)
	}
}

func TestBadSignals(t *testing.T) {
	for _, name := range []string{"", "two words", "tab\t", "\x00", "\xff", strings.Repeat("x", MaxSignalName+1)} {
		s := NewSession(&recorder{}, nil)
		ran := false
		s.Signal(name, func() { ran = true })
		if err := s.Err(); !errors.Is(err, ErrSignal) || !ran {
			t.Errorf("%q: error %v, ran %v", name, err, ran)
		}
		var oe *OpError
		if err := s.ClearErr(); !errors.As(err, &oe) || !strings.Contains(oe.Site, "signal_test.go") {
			t.Errorf("%q: %v doesn't say where", name, err)
		}
	}
	s := NewSession(&recorder{}, nil)
	for i := range MaxSignals + 1 {
		if err := s.Err(); err != nil {
			t.Fatalf("signal %d: %v", i, err)
		}
		s.Signal(strings.Repeat("y", 1+i%32)+string(rune('à'+i/32)), func() {})
	}
	if err := s.Err(); !errors.Is(err, ErrSignal) {
		t.Errorf("one too many gave %v", err)
	}
}

func TestParseSignalsRefuses(t *testing.T) {
	enc := signalled(t).Encoded
	for n := range enc {
		if _, err := ParseProgram(enc[:n]); !errors.Is(err, ErrProgram) {
			t.Fatalf("%d of %d bytes: %v", n, len(enc), err)
		}
	}
	p, err := ParseProgram(enc)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(q *Program){
		"a signal beyond the table":         func(q *Program) { q.Instrs[1].Signal = 9 },
		"a name beyond the table":           func(q *Program) { q.Instrs[1].Named = 9 },
		"an input's signal beyond":          func(q *Program) { q.Externals[0].Signal = 9 },
		"a signal twice":                    func(q *Program) { q.Signals[1] = q.Signals[0] },
		"a name with a space":               func(q *Program) { q.Signals[1].Name = "a b" },
		"a signal without a name":           func(q *Program) { q.Signals[1].Name = "" },
		"more signals than there may be":    func(q *Program) { q.Signals = make([]Signal, MaxSignals+1) },
		"a name longer than names may be":   func(q *Program) { q.Signals[0].Name = strings.Repeat("z", 200) },
		"a name that isn't UTF-8":           func(q *Program) { q.Signals[0].Name = "\xc3\x28" },
		"a line break that forges a report": func(q *Program) { q.Signals[0].Name = "a\nb" },
	} {
		q := p.Clone()
		change(q)
		if _, err := ParseProgram(q.Append(nil)); !errors.Is(err, ErrProgram) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
