package collective

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/net/route"
)

var (
	killsFlag = flag.Int("death.kills", 0, "how many times a rank is killed; 0: 12, in short tests and under the race detector 3")
	stopsFlag = flag.Int("death.stops", 0, "how many times a rank is stopped; 0: 3, in short tests and under the race detector 1")
)

// childVariable says which rank a child is, of how many, on which host, and with which
// timeout.
const childVariable = "RINGSIDE_TEST_RANK"

func TestMain(m *testing.M) {
	os.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
	if os.Getenv(hostVariable) != "" {
		if err := rankOnHost(); err != nil {
			fmt.Fprintln(os.Stderr, "rank on a host:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for variable, run := range map[string]func(spec string) error{childVariable: child, meddledVariable: rankMeddled} {
		if spec := os.Getenv(variable); spec != "" {
			if err := run(spec); err != nil {
				fmt.Fprintln(os.Stderr, "child:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// child is a rank in a process of its own. It makes calls until one fails, says of whom
// the error is, and then shrinks the group and makes a call on that. Its exchange goes
// through the parent, by lines.
func child(spec string) error {
	f := strings.Fields(spec)
	rank, _ := strconv.Atoi(f[0])
	size, _ := strconv.Atoi(f[1])
	timeout, err := time.ParseDuration(f[3])
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	exchange := func(_ context.Context, mine []byte) ([][]byte, error) {
		fmt.Printf("X %x\n", mine)
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var out [][]byte
		for _, h := range strings.Fields(line) {
			b, err := hex.DecodeString(h)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
		return out, nil
	}
	host := f[2]
	o := &Options{Timeout: timeout, mesh: &route.MeshOptions{Secret: []byte("of a test"), Name: fmt.Sprint("number ", rank), Host: host, Bind: "127.0.0.1"}}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	members, err := o.open(ctx, rank, size, exchange)
	if err != nil {
		return err
	}
	g, err := New(ctx, rank, members, o)
	if err != nil {
		return err
	}
	fmt.Println("R")
	err = work(ctx, g)
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("the calls ended with %v", err)
	}
	fmt.Printf("E %d %s %v\n", e.Rank, codeOf(err), err)
	s, err := g.Shrink(ctx)
	if errors.Is(err, ErrExcluded) {
		fmt.Println("excluded")
		return g.Close()
	}
	if err != nil {
		return fmt.Errorf("shrink: %w", err)
	}
	x := []int64{1}
	if err := AllReduce(ctx, s, x, x, Sum); err != nil {
		return fmt.Errorf("after shrink: %w", err)
	}
	fmt.Printf("S %d\n", x[0])
	return errors.Join(s.Close(), g.Close())
}

// work makes calls of all kinds, the same on every rank, until one fails. The results are
// checked.
func work(ctx context.Context, g *Group) error {
	rng := rand.New(rand.NewPCG(1, 2))
	shared, err := Alloc[float32](g, 1<<18)
	if err != nil {
		return err
	}
	plain := make([]float32, 1<<18)
	for {
		n := 1 << rng.IntN(18)
		buf := plain[:n]
		if rng.IntN(2) == 0 {
			buf = shared[:n]
		}
		for i := range buf {
			buf[i] = float32(g.Rank())
		}
		root := rng.IntN(g.Size())
		want := float32(g.Size() * (g.Size() - 1) / 2)
		switch rng.IntN(5) {
		case 0:
			err, want = Broadcast(ctx, g, buf, root), float32(root)
		case 4: // round a circle, with several lanes at a time
			in, tag := make([]float32, n), uint32(rng.IntN(3))
			before := (g.Rank() + g.Size() - 1) % g.Size()
			late := RecvTagAsync(ctx, g, make([]float32, 1), before, 9)
			w := RecvTagAsync(ctx, g, in, before, tag)
			after := (g.Rank() + 1) % g.Size()
			for _, step := range []func() error{
				func() error { return SendTag(ctx, g, buf, after, tag) },
				func() error { return w.Wait(ctx) },
				func() error { return SendTag(ctx, g, buf[:1], after, 9) },
				func() error { return late.Wait(ctx) },
			} {
				if err == nil {
					err = step()
				}
			}
			buf, want = in, float32(before)
		case 1:
			err = g.Barrier(ctx)
			want = float32(g.Rank())
		default:
			err = AllReduce(ctx, g, buf, buf, Sum)
		}
		if err != nil {
			return err
		}
		if buf[0] != want || buf[n-1] != want {
			return fmt.Errorf("a call of %d elements gave %v and %v, want %v", n, buf[0], buf[n-1], want)
		}
	}
}

// ranksOf are child processes.
type ranksOf struct {
	cmds  []*exec.Cmd
	ins   []io.WriteCloser
	lines []chan string // what each says after its group stands; closed when it ends
	errs  []*strings.Builder
}

// startRanks starts a process for every host of the list, and returns when all have their
// groups.
func startRanks(t *testing.T, hosts []string, timeout time.Duration) *ranksOf {
	t.Helper()
	rs := &ranksOf{}
	offers := make([]chan string, len(hosts))
	for r, host := range hosts {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s %v", childVariable, r, len(hosts), host, timeout))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		stderr := &strings.Builder{}
		cmd.Stderr = stderr
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		rs.cmds, rs.ins, rs.errs = append(rs.cmds, cmd), append(rs.ins, in), append(rs.errs, stderr)
		lines := make(chan string, 16)
		rs.lines, offers[r] = append(rs.lines, lines), make(chan string, 1)
		go func() {
			defer close(lines)
			sc := bufio.NewScanner(out)
			sc.Buffer(nil, 1<<20)
			for sc.Scan() {
				if s, ok := strings.CutPrefix(sc.Text(), "X "); ok {
					offers[r] <- s
				} else {
					lines <- sc.Text()
				}
			}
		}()
	}
	// Rounds of exchange, until they say that they are ready.
	for ready := false; !ready; {
		var round []string
		for r := range hosts {
			select {
			case s := <-offers[r]:
				round = append(round, s)
			case s, ok := <-rs.lines[r]:
				if !ok || s != "R" {
					t.Fatalf("rank %d said %q: %s", r, s, rs.errs[r])
				}
				ready = true
			case <-time.After(60 * time.Second):
				t.Fatalf("rank %d says nothing", r)
			}
		}
		for r := range hosts {
			if !ready {
				fmt.Fprintln(rs.ins[r], strings.Join(round, " "))
			}
		}
	}
	return rs
}

// hear returns the next line of a rank and when it came.
func (rs *ranksOf) hear(r int) (string, time.Time) {
	select {
	case s, ok := <-rs.lines[r]:
		if !ok {
			s = fmt.Sprintf("nothing any more: %v: %s", rs.cmds[r].Wait(), rs.errs[r])
		}
		return s, time.Now()
	case <-time.After(60 * time.Second):
		return "nothing for a minute", time.Now()
	}
}

// survive checks that all but the victim name it, and go on without it; it returns how
// long the slowest took to say so.
func (rs *ranksOf) survive(t *testing.T, victim int, want string, since time.Time) time.Duration {
	t.Helper()
	var longest time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	for r := range rs.cmds {
		if r == victim {
			continue
		}
		wg.Go(func() {
			s, at := rs.hear(r)
			if !strings.HasPrefix(s, fmt.Sprintf("E %d %s ", victim, want)) {
				t.Errorf("rank %d said %q, expected the %s of rank %d", r, s, want, victim)
			}
			if name := fmt.Sprintf(" rank %d (\"number %d\") on host ", victim, victim); !strings.Contains(s, name) {
				t.Errorf("rank %d said %q, expected%q in it", r, s, name)
			}
			mu.Lock()
			longest = max(longest, at.Sub(since))
			mu.Unlock()
			if s, _ := rs.hear(r); s != fmt.Sprintf("S %d", len(rs.cmds)-1) {
				t.Errorf("rank %d said %q after the shrink, expected a sum over %d ranks", r, s, len(rs.cmds)-1)
			}
		})
	}
	wg.Wait()
	return longest
}

// end waits for all.
func (rs *ranksOf) end(t *testing.T, victim int) {
	t.Helper()
	rs.cmds[victim].Process.Kill()
	for r, cmd := range rs.cmds {
		if err := cmd.Wait(); err != nil && r != victim {
			t.Errorf("rank %d: %v: %s", r, err, rs.errs[r])
		}
	}
}

// processHosts are the worlds in which ranks die, one after the other.
var processHosts = [][]string{{"a", "a", "a", "a"}, {"a", "a", "b", "b"}, {"a", "b", "c", "d"}}

func many(f *int, full, short int) int {
	switch {
	case *f > 0:
		return *f
	case testsize.Sampled():
		return short
	}
	return full
}

// TestKilled kills one of four processes in the middle of calls, at a random moment.
func TestKilled(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	var longest time.Duration
	n := many(killsFlag, 12, 3)
	for i := range n {
		rs := startRanks(t, processHosts[i%len(processHosts)], 30*time.Second)
		victim := rng.IntN(4)
		<-time.After(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		at := time.Now()
		rs.cmds[victim].Process.Kill()
		longest = max(longest, rs.survive(t, victim, "lost", at))
		rs.end(t, victim)
		if t.Failed() {
			t.Fatalf("in world %v, kill %d", processHosts[i%len(processHosts)], i)
		}
	}
	t.Logf("%d killed; %v at most until the last survivor's error", n, longest)
}

// TestStopped stops one of four processes, which the others cannot tell from one that is
// slow until the timeout.
func TestStopped(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 2))
	const timeout = 700 * time.Millisecond
	var longest time.Duration
	n := many(stopsFlag, 3, 1)
	for i := range n {
		rs := startRanks(t, processHosts[i%len(processHosts)], timeout)
		victim := rng.IntN(4)
		<-time.After(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		at := time.Now()
		if err := rs.cmds[victim].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, rs.survive(t, victim, "timeout", at))
		// When it goes on, it finds that the others have gone on without it.
		if err := rs.cmds[victim].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if s, _ := rs.hear(victim); !strings.HasPrefix(s, "E ") {
			t.Errorf("the one that was stopped said %q, expected an error", s)
		}
		if s, _ := rs.hear(victim); s != "excluded" {
			t.Errorf("the one that was stopped said %q of its shrink", s)
		}
		rs.end(t, victim)
		if t.Failed() {
			t.Fatalf("in world %v, stop %d", processHosts[i%len(processHosts)], i)
		}
	}
	t.Logf("%d stopped with a timeout of %v; %v at most until the last survivor's error", n, timeout, longest)
}
