package tensor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sample records a program with every kind of argument.
func sample(t testing.TB) Batch {
	r := &recorder{}
	s := NewSession(r, &SessionOptions{Seed: 7})
	x := From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	w := From(s, []float64{1, 2, 3})
	y := x.Add(w).MulS(0.5).Sum(0)
	z := Concat(0, y, y, RandN(s, F64, 3)).Dropout(0.1)
	i := From(s, []int32{2, 0})
	z.IndexSelect(0, i).Softmax(-1)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	return r.last()
}

func TestEncodingRoundTrip(t *testing.T) {
	b := sample(t)
	p, err := ParseProgram(b.Encoded)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, b.Program) {
		t.Errorf("parsed\n%v\nrecorded\n%v", p, b.Program)
	}
	if again := p.Append(nil); !bytes.Equal(again, b.Encoded) || p.EncodedSize() != len(again) {
		t.Errorf("encoded again: %d bytes, EncodedSize %d, before %d", len(again), p.EncodedSize(), len(b.Encoded))
	}
}

// TestGoldenBytes fixes the format: a change of the bytes is a new ProgramVersion.
func TestGoldenBytes(t *testing.T) {
	const file = "testdata/program_v1.hex"
	got := hex.EncodeToString(sample(t).Encoded) + "\n"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the encoding changed; %s has %d digits, now %d:\n%s", file, len(want), len(got), got)
	}
}

// TestUnfusedProgram: the flag is part of a program's identity, with and without signals,
// and no other flag is taken.
func TestUnfusedProgram(t *testing.T) {
	run := func(o *SessionOptions, signal bool) Batch {
		r := &recorder{}
		s := NewSession(r, o)
		x := From(s, []float32{1, 2})
		if signal {
			s.Signal("a", func() { x.AddS(1) })
		} else {
			x.AddS(1)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		return r.last()
	}
	for _, signal := range []bool{false, true} {
		plain, b := run(nil, signal), run(&SessionOptions{Unfused: true}, signal)
		p, err := ParseProgram(b.Encoded)
		if err != nil || !p.Unfused || b.Hash == plain.Hash || !bytes.Equal(p.Append(nil), b.Encoded) || p.EncodedSize() != len(b.Encoded) ||
			!strings.HasPrefix(p.Clone().String(), "unfused\n") {
			t.Fatalf("signal %v: %v, %v", signal, p, err)
		}
		for n := range b.Encoded {
			if _, err := ParseProgram(b.Encoded[:n]); !errors.Is(err, ErrProgram) {
				t.Fatalf("signal %v: %d of %d bytes: %v", signal, n, len(b.Encoded), err)
			}
		}
		for _, bad := range [][]byte{{3, 0, 0, 0}, {3, 0, 2, 0}, {3, 0, 4, 0}, {3, 0, 5, 0}, {2, 0, 1, 0}, {1, 0, 1, 0}, {4, 0, 1, 0}} {
			changed := slices.Concat(b.Encoded[:4], bad, b.Encoded[8:])
			if _, err := ParseProgram(changed); !errors.Is(err, ErrProgram) {
				t.Errorf("signal %v: version and flags % x: %v", signal, bad, err)
			}
		}
	}
}

func TestTruncatedProgram(t *testing.T) {
	enc := sample(t).Encoded
	for n := range enc {
		if _, err := ParseProgram(enc[:n]); !errors.Is(err, ErrProgram) {
			t.Fatalf("%d of %d bytes: %v", n, len(enc), err)
		}
	}
}

func TestHashSeparates(t *testing.T) {
	hash := func(f func(s *Session, x *Tensor)) Hash {
		r := &recorder{}
		s := NewSession(r, nil)
		x := From(s, []float32{1, 2, 3, 4})
		f(s, x)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		return r.last().Hash
	}
	base := hash(func(s *Session, x *Tensor) { a := x.AddS(1); a.Mul(x) })
	same := hash(func(s *Session, x *Tensor) { a := x.AddS(2); a.Mul(x) })
	if base != same {
		t.Error("another scalar is another program")
	}
	for name, f := range map[string]func(s *Session, x *Tensor){
		"other operation": func(s *Session, x *Tensor) { a := x.AddS(1); a.Add(x) },
		"other wiring":    func(s *Session, x *Tensor) { a := x.AddS(1); a.Mul(a) },
		"swapped":         func(s *Session, x *Tensor) { a := x.AddS(1); x.Mul(a) },
		"other lifetime":  func(s *Session, x *Tensor) { a := x.AddS(1); a.Mul(x); a.Free() },
		"donated":         func(s *Session, x *Tensor) { a := x.AddS(1); a.Mul(x); x.Free() },
	} {
		if hash(f) == base {
			t.Errorf("%s: the same hash", name)
		}
	}
	r1 := hash(func(s *Session, x *Tensor) { x.Reshape(2, 2).Sum(0) })
	r2 := hash(func(s *Session, x *Tensor) { x.Reshape(4, 1).Sum(0) })
	if r1 == r2 {
		t.Error("other reshape parameters: the same hash")
	}
}

// FuzzParseProgram: a program that parses is well formed, so it encodes to the same bytes
// and prints.
func FuzzParseProgram(f *testing.F) {
	f.Add(sample(f).Encoded)
	f.Add(signalled(f).Encoded)
	f.Add((&Program{}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseProgram(b)
		if err != nil {
			if !errors.Is(err, ErrProgram) {
				t.Fatalf("%v is no ErrProgram", err)
			}
			return
		}
		_ = p.String()
		q, err := ParseProgram(p.Append(nil))
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("does not survive encoding: %v", err)
		}
	})
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Ops() {
		info := o.Info()
		if info.shape == nil || info.Doc == "" || info.Class == 0 || seen[info.Name] {
			t.Errorf("%v: incomplete or twice in the table", o)
		}
		seen[info.Name] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d operations", len(seen))
	}
}
