package cluster_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestProgramOfSession: a monitor gets the program that another process's session ran
// most often, byte for byte, also one of several parts, from a session of one worker and
// of two.
func TestProgramOfSession(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 2})
	m, err := client.NewMonitor(t.Context(), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for workers := 1; workers <= 2; workers++ {
		name := []string{"alone", "both"}[workers-1]
		e := dial(t, c, &client.Options{Name: name, Workers: workers})
		s := tensor.NewSession(e, nil)
		if err := m.Ask(t.Context(), client.Question{Worker: "w0"}); err != nil {
			t.Fatal(err)
		}
		answer, err := m.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first, _ := e.Worker()
		if first != "w0" {
			t.Fatalf("the session's first worker is %s", first)
		}
		var id uint64
		for _, x := range answer.(*client.WorkerReport).Sessions {
			if x.Name == name {
				id = x.ID
			}
		}
		if _, err := m.Program(t.Context(), id); id == 0 || !errors.Is(err, client.ErrNoProgram) {
			t.Errorf("session %d before its first program: %v", id, err)
		}
		var most []byte
		for run := range 3 {
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) {
				x := tensor.Full(s, tensor.F32, 1, 4)
				for range 2000 * min(run, 1) { // the first program is short
					x = x.MulS(2).AddS(1)
				}
				y = sc.Keep(x)
			})
			tape, err := s.Tape()
			if err != nil {
				t.Fatal(err)
			}
			most = tape.Append(nil)
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			y.Free()
		}
		p, err := m.Program(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.Encoded, most) || len(most) < 40<<10 || p.Runs != 2 || p.Programs != 2 || p.Workers != workers || p.Session != name || p.Worker != "w0" || p.Hash != tensor.HashOf(most) {
			t.Errorf("%s: %d bytes, expected %d; %d runs of %d programs on %d workers of %q by %s", name, len(p.Encoded), len(most), p.Runs, p.Programs, p.Workers, p.Session, p.Worker)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Program(t.Context(), 1<<40); !errors.Is(err, client.ErrNoProgram) {
		t.Errorf("no such session: %v", err)
	}
}
