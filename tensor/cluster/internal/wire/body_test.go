package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestBodies(t *testing.T) {
	program := make([]byte, 1000)
	for i := range program {
		program[i] = byte(i * 7)
	}
	for _, n := range []int{0, 1, 99, 100, 101, 1000} {
		for _, limit := range []int{BodyOverhead + 1, BodyOverhead + 100, 1 << 20} {
			var a Assembler
			var whole []byte
			done := false
			err := Bodies(3, sampleHash(1), program[:n], limit, func(m *Body) error {
				if done {
					t.Fatal("a part after the last")
				}
				b := Append(nil, m)
				if len(b) > limit {
					t.Fatalf("a part takes %d bytes, limit %d", len(b), limit)
				}
				var got Body
				if err := Parse(b, &got); err != nil {
					return err
				}
				p, err := a.Add(&got)
				whole, done = p, p != nil
				return err
			})
			if err != nil || !done || !bytes.Equal(whole, program[:n]) {
				t.Errorf("%d bytes in messages of %d: %v, done %v, %d bytes came", n, limit, err, done, len(whole))
			}
		}
	}
	never := func(*Body) error { t.Error("sent"); return nil }
	if err := Bodies(1, Hash{}, program, BodyOverhead, never); !errors.Is(err, ErrMalformed) {
		t.Errorf("no room: %v", err)
	}
	if err := Bodies(1, Hash{}, make([]byte, MaxProgram+1), 1<<20, never); !errors.Is(err, ErrMalformed) {
		t.Errorf("too large: %v", err)
	}
	stop := errors.New("stop")
	if err := Bodies(1, Hash{}, program, 100, func(*Body) error { return stop }); err != stop {
		t.Errorf("send's error: %v", err)
	}
}

// TestAssembler: parts that do not follow one another.
func TestAssembler(t *testing.T) {
	first := Body{Hash: sampleHash(1), Total: 10, Part: []byte("01234")}
	for what, second := range map[string]Body{
		"other hash":  {Hash: sampleHash(2), Total: 10, Off: 5, Part: []byte("56789")},
		"other total": {Hash: sampleHash(1), Total: 11, Off: 5, Part: []byte("56789")},
		"gap":         {Hash: sampleHash(1), Total: 10, Off: 6, Part: []byte("6789")},
		"overlap":     {Hash: sampleHash(1), Total: 10, Off: 4, Part: []byte("4567")},
	} {
		var a Assembler
		if _, err := a.Add(&first); err != nil {
			t.Fatal(err)
		}
		if p, err := a.Add(&second); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %q, %v", what, p, err)
		}
	}
	var a Assembler
	if p, err := a.Add(&Body{Total: 10, Off: 5, Part: []byte("56789")}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a second part first: %q, %v", p, err)
	}
	// Starting over is fine.
	if _, err := a.Add(&first); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Add(&first); err != nil {
		t.Fatal(err)
	}
	second := Body{Hash: sampleHash(1), Total: 10, Off: 5, Part: []byte("56789")}
	if p, err := a.Add(&second); err != nil || string(p) != "0123456789" {
		t.Errorf("%q, %v", p, err)
	}
}
