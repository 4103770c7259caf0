package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// TestBusy wants a second Save in a folder to return ErrBusy.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t)
	if err := Save(t.Context(), s, dir, nil, nil); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	unlock()
	if err := Save(t.Context(), s, dir, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestFailedSave wants a Save that fails to leave the old checkpoint.
func TestFailedSave(t *testing.T) {
	dir := t.TempDir()
	s := session(t)
	if err := Save(t.Context(), s, dir, state(s, 4), &Options{Step: 4}); err != nil {
		t.Fatal(err)
	}
	x := tensor.Ones(s, tensor.F32, 2)
	gone := tensor.Ones(s, tensor.F32, 2)
	gone.Free()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"twice":    Save(t.Context(), s, dir, []tensor.Named{{Name: "x", T: x}, {Name: "x", T: x}}, nil),
		"bad name": Save(t.Context(), s, dir, []tensor.Named{{Name: "\xff", T: x}}, nil),
		"bad note": Save(t.Context(), s, dir, nil, &Options{Notes: map[string]string{"\xff": ""}}),
		"released": Save(t.Context(), s, dir, []tensor.Named{{Name: "x", T: x}, {Name: "y", T: gone}}, nil),
		"context":  Save(ctx, session(t), dir, nil2(t), nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = s.ClearErr()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v in the folder, %v; expected the manifest and one folder", entries, err)
	}
	got := state(s, 0)
	if err := mustOpen(t, dir).Restore(t.Context(), got); err != nil || !equal(content(t, got), content(t, state(s, 4))) {
		t.Error(err)
	}
}

// nil2 returns tensors of a session of their own.
func nil2(t *testing.T) []tensor.Named { return state(session(t), 1) }

const saverFlag = "-save-for-ever"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == saverFlag {
		s, err := cpu.NewSession(nil, nil)
		for step := 1; err == nil; step++ {
			err = Save(context.Background(), s, os.Args[2], state(s, step), &Options{Step: uint64(step)})
			fmt.Println(step)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilledSave kills a saving process at random moments, and wants a complete
// checkpoint that is no older than the last finished one.
func TestKilledSave(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := session(t)
	dir := t.TempDir()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		said, err := killed(exe, dir, 1+r.IntN(5), time.Duration(r.IntN(4000))*time.Microsecond)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		c := mustOpen(t, dir)
		if c.Step < uint64(said) {
			t.Errorf("round %d: step %d was saved, the folder has %d", round, said, c.Step)
		}
		got := state(s, 0)
		if err := c.Restore(t.Context(), got); err != nil || !equal(content(t, got), content(t, state(s, int(c.Step)))) {
			t.Fatalf("round %d: step %d: %v", round, c.Step, err)
		}
	}
	// it also removes the files that the killed process left
	if err := Save(t.Context(), s, dir, state(s, 1), nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v in the folder, %v", entries, err)
	}
}

// killed has another process save until it has reported the given number of steps, kills
// it a moment later, and returns the last step that it reported.
func killed(exe, dir string, steps int, later time.Duration) (said int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	p, err := os.StartProcess(exe, []string{exe, saverFlag, dir}, &os.ProcAttr{Files: []*os.File{nil, write, os.Stderr}})
	write.Close()
	if err != nil {
		return 0, err
	}
	for said < steps {
		if _, err := fmt.Fscanln(read, &said); err != nil {
			_, _ = p.Wait()
			return said, fmt.Errorf("after step %d: %w", said, err)
		}
	}
	<-time.After(later)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return said, err
	}
	if _, err := p.Wait(); err != nil {
		return said, err
	}
	for { // what it said before
		if _, err := fmt.Fscanln(read, &said); err != nil {
			return said, nil
		}
	}
}
