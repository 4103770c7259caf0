package collective

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/net/nettest"
)

const (
	// hostVariable says that a child is a rank of TestTwoHosts; which one, launchers'
	// variables say.
	hostVariable = "RINGSIDE_TEST_TWO_HOSTS"

	wireCount = 4 << 20 // elements of the all-reduce whose traffic is counted
)

// rankOnHost is a rank in a process on one of two hosts. It does what lines on standard
// input say, and answers each by a line.
func rankOnHost() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	g, err := Init(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Println("on", g.Hosts())
	x, err := Alloc[float32](g, wireCount)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := "done"
		switch lines.Text() {
		case "bits":
			answer, err = bitsOf(ctx, g)
		case "large":
			copy(x, input[float32](Sum, wireCount, g.Rank()))
			if err = AllReduce(ctx, g, x, x, Sum); err == nil {
				answer = digest(bytesOf(x))
			}
		case "wait":
			fmt.Println("waiting")
			var e *Error
			if err = g.Barrier(ctx); errors.As(err, &e) {
				answer, err = fmt.Sprint(codeOf(err), " ", e.Rank), nil
			}
		case "shrink":
			var s *Group
			if s, err = g.Shrink(ctx); err == nil {
				one := []int64{1}
				err = AllReduce(ctx, s, one, one, Sum)
				answer = fmt.Sprint(one[0])
				defer s.Close()
			}
		}
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return g.Close()
}

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// bitsOf is a digest of many reductions' results.
func bitsOf(ctx context.Context, g *Group) (string, error) {
	rng := rand.New(rand.NewPCG(5, uint64(g.Rank())))
	var all []string
	for _, count := range []int{1, 7, 1000, 100_003} {
		for _, f := range []func() (string, []byte, error){
			func() (string, []byte, error) { return oneReduction[float64](g, rng, count) },
			func() (string, []byte, error) { return oneReduction[float32](g, rng, count) },
			func() (string, []byte, error) { return oneReduction[Float16](g, rng, count) },
			func() (string, []byte, error) { return oneReduction[BFloat16](g, rng, count) },
		} {
			name, b, err := f()
			if err != nil {
				return "", err
			}
			all = append(all, name, digest(b))
		}
	}
	return digest([]byte(strings.Join(all, " "))), g.Barrier(ctx)
}

// hostRank is a child of TestTwoHosts.
type hostRank struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // what it says; closed when it ends
	stderr strings.Builder
}

func (r *hostRank) line(t *testing.T) string {
	t.Helper()
	select {
	case s, ok := <-r.lines:
		if !ok {
			t.Fatalf("a rank ended: %s", &r.stderr)
		}
		return s
	case <-time.After(time.Minute):
		t.Fatal("a rank says nothing")
	}
	return ""
}

// end waits for the end of the process.
func (r *hostRank) end() {
	_ = r.in.Close()
	for range r.lines {
	}
	_ = r.cmd.Wait()
}

// hostRanks starts four processes, two on each host, by the variables of a launcher and
// one more.
func hostRanks(t *testing.T, hosts [2]*nettest.Host, port int, variable string) (ranks []*hostRank) {
	t.Helper()
	for i := range 4 {
		r := &hostRank{cmd: hosts[i/2].Command(t.Context(), os.Args[0], "-test.run=^$"), lines: make(chan string, 16)}
		// The network is this test's alone, so every port is free; a folder in /dev/shm
		// is not the other host's too.
		r.cmd.Env = append(os.Environ(), variable, "XDG_RUNTIME_DIR=/dev/shm", "RINGSIDE_SECRET=the secret of a test",
			fmt.Sprint("RANK=", i), "WORLD_SIZE=4", fmt.Sprint("LOCAL_RANK=", i%2), "LOCAL_WORLD_SIZE=2",
			"MASTER_ADDR="+hosts[0].Addr, fmt.Sprint("MASTER_PORT=", port))
		r.cmd.Stderr = &r.stderr
		out, err := r.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if r.in, err = r.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := r.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(r.lines)
			for sc := bufio.NewScanner(out); sc.Scan(); {
				r.lines <- sc.Text()
			}
		}()
		t.Cleanup(r.end)
		ranks = append(ranks, r)
	}
	return ranks
}

// TestTwoHosts: four processes on two hosts find each other by a launcher's variables,
// use shared memory inside a host and TCP between them, get the bits of one host, send no
// more over the wire than they must, and survive the death of one.
func TestTwoHosts(t *testing.T) {
	hosts := nettest.ForTest(t, os.Getenv)
	ranks := hostRanks(t, hosts, 29500, hostVariable+"=1")
	for i, r := range ranks {
		if s := r.line(t); s != fmt.Sprint("on ", [][]int{{0, 1}, {2, 3}}) {
			t.Errorf("rank %d: %q", i, s)
		}
	}
	tell := func(rs []*hostRank, what string) {
		t.Helper()
		for _, r := range rs {
			if _, err := fmt.Fprintln(r.in, what); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(rs []*hostRank, what, want string) {
		t.Helper()
		for i, r := range rs {
			if s := r.line(t); s != want {
				t.Errorf("%s: rank %d answers %q, want %q", what, i, s, want)
			}
		}
	}

	// The same on one host that folds as if it were two.
	here, err := Local(4, &Options{Layout: []int{0, 0, 1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	bits, sums := make([]string, 4), make([]string, 4)
	all(t, here, func(g *Group) (err error) {
		if bits[g.Rank()], err = bitsOf(t.Context(), g); err != nil {
			return err
		}
		x := input[float32](Sum, wireCount, g.Rank())
		err = AllReduce(t.Context(), g, x, x, Sum)
		sums[g.Rank()] = digest(bytesOf(x))
		return err
	})
	closeAll(t, here)
	tell(ranks, "bits")
	for i, r := range ranks {
		if s := r.line(t); s != bits[i] {
			t.Errorf("rank %d has other bits than on one host", i)
		}
	}

	var before [2]uint64
	for i, h := range hosts {
		before[i], _ = h.Sent()
	}
	tell(ranks, "large")
	expect(ranks, "large", sums[0])
	var total float64
	for i, h := range hosts {
		after, err := h.Sent()
		if err != nil {
			t.Fatal(err)
		}
		total += float64(after - before[i])
	}
	// Each host sends half of the buffer to be folded, and the other half folded.
	ratio := total / (2 * 4 * wireCount)
	t.Logf("sent %.4f of the least that two hosts can do with", ratio)
	if ratio < 1 || ratio > 1.1 {
		t.Errorf("sent %.4f of the least that two hosts can do with", ratio)
	}

	left := append(ranks[:2:2], ranks[3])
	tell(left, "wait")
	expect(left, "wait", "waiting")
	began := time.Now()
	if err := ranks[2].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	expect(left, "death", "lost 2")
	t.Log("everybody knows of a death after", time.Since(began))
	tell(left, "shrink")
	expect(left, "shrink", "3")
}
