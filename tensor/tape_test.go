package tensor

import (
	"errors"
	"strings"
	"testing"
)

// pathEngine is a recorder that explains itself.
type pathEngine struct{ recorder }

func (*pathEngine) Explain() []string { return []string{"by carrier pigeon"} }

// TestTape: the tape is what the next sync point submits, and empty after it. Explain
// says where a tensor is meanwhile.
func TestTape(t *testing.T) {
	e := &pathEngine{}
	s := NewSession(e, nil)
	defer s.Close()
	x := From(s, []float32{1, 2}, 2).Signal("x")
	y := x.Add(x).MulS(3)
	if said, err := s.Explain(x); err != nil || !strings.HasPrefix(said, "f32[2]: an upload that goes with the next program, to recorder\nsignal: x\n") {
		t.Errorf("%q, %v", said, err)
	}
	if said, err := s.Explain(y); err != nil || said != "f32[2]: recorded, not submitted yet: instruction %1, mul, of the tape, to recorder\npath: by carrier pigeon\n" {
		t.Errorf("%q, %v", said, err)
	}
	x.Free()
	tape, err := s.Tape()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if sent := e.last(); string(tape.Append(nil)) != string(sent.Encoded) {
		t.Errorf("the tape is\n%v\nsubmitted was\n%v", tape, sent.Program)
	}
	if tape, err := s.Tape(); err != nil || len(tape.Instrs) != 0 {
		t.Errorf("after a sync point: %v, %v", tape, err)
	}
	if said, err := s.Explain(y); err != nil || !strings.HasPrefix(said, "f32[2]: value ") {
		t.Errorf("%q, %v", said, err)
	}
	y.Free()
	other, _ := newRecorded(t)
	for _, c := range []struct {
		t    *Tensor
		want error
	}{{y, ErrReleased}, {Ones(other, F32, 1), ErrOtherSession}, {Ones(s, F32, 2).Add(Ones(s, F32, 3)), ErrShape}} {
		if _, err := s.Explain(c.t); !errors.Is(err, c.want) {
			t.Errorf("%v, expected %v", err, c.want)
		}
	}
	s.Close()
	if _, err := s.Tape(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v after Close", err)
	}
}
