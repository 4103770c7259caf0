package shm

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// TestMain lets this test binary also be the process that is killed.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Arg(0) != "child" {
		os.Exit(m.Run())
	}
	if err := churn(flag.Arg(1), flag.Arg(2)); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// churn allocates, fills, leases and releases until it is killed, and says so once
// it is under way.
func churn(dir, seedText string) error {
	seed, err := strconv.ParseUint(seedText, 10, 64)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	a, err := NewArena(&ArenaOptions{First: 256 << 10, MaxBytes: 8 << 20, Segment: Options{Dir: dir, Backing: Tmpfs}})
	if err != nil {
		return err
	}
	var live []*Block
	for step := 0; ; step++ {
		if len(live) < 20 {
			b, err := a.Alloc(rng.IntN(300 << 10))
			if err != nil {
				return err
			}
			clear(b.Bytes())
			if err := a.Lease(b, 1); err != nil {
				return err
			}
			live = append(live, b)
		} else {
			for _, b := range live {
				b.Release()
			}
			live = live[:0]
			a.ReleaseOwner(1)
			a.Trim()
		}
		if step == 10 {
			if _, err := fmt.Println("under way"); err != nil {
				return err
			}
		}
	}
}

// TestKilledLeavesNothing kills processes in the middle of making and using segments: the
// file system is as before, also if other processes had them mapped.
func TestKilledLeavesNothing(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "16m")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	before := openFiles(t)
	for range 20 {
		cmd := exec.Command(exe, "child", dir, strconv.FormatUint(rng.Uint64(), 10))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("the child said %q and then %v", line, err)
		}
		if used(t, dir) == 0 {
			t.Error("the child uses nothing: the test tests nothing")
		}
		// Somewhere in the next 2 ms; where, the child's own speed decides.
		for end := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Microsecond); time.Now().Before(end); {
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended before it was killed")
		}
		if n := used(t, dir); n != 0 {
			t.Fatalf("%d bytes of the file system left by a killed process", n)
		}
	}
	if n := openFiles(t); n > before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}
