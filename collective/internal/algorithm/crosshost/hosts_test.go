package crosshost

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

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
)

const (
	rankVariable = "WIDE_TEST_RANK" // tells a child of this test which rank it is
	dialVariable = "WIDE_TEST_DIAL" // and where rank 0 listens
	timeVariable = "WIDE_TEST_TIME" // and the timeout
	large        = 4 << 20          // elements of the all-reduce that is counted
)

// TestMain is also rank 0 or 1 of TestTwoHosts and TestUnplugged.
func TestMain(m *testing.M) {
	rank := os.Getenv(rankVariable)
	if rank == "" {
		os.Exit(m.Run())
	}
	if err := playRank(int(rank[0] - '0')); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// playRank does what the test tells by lines on standard input, and answers each by a
// line.
func playRank(rank int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	w, err := local.NewWaiter()
	if err != nil {
		return err
	}
	o := &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleRank, Name: fmt.Sprint("rank ", rank)}, Waiter: w, Secret: []byte("two hosts")}
	var conn ipc.Conn
	if rank == 0 {
		l, err := tcp.New().Listen(os.Getenv(dialVariable)+":0", o)
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		if conn, err = l.Accept(ctx); err != nil {
			return err
		}
	} else if conn, err = tcp.New().Dial(ctx, os.Getenv(dialVariable), o); err != nil {
		return err
	}
	conns := []ipc.Conn{conn, nil}
	if rank == 0 {
		conns = []ipc.Conn{nil, conn}
	}
	timeout, err := time.ParseDuration(os.Getenv(timeVariable))
	if err != nil {
		return err
	}
	c, err := New(ctx, rank, conns, &Options{Waiter: w, Timeout: timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	buf := fill(rand.New(rand.NewPCG(uint64(rank), 0)), element.F32, large)
	call := protocol.Call{Seq: 1000, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: large}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		call.Seq++
		answer := "done"
		switch lines.Text() {
		case "script":
			_, err = script(ctx, c, nil, 1, 5000, []element.DType{element.F32, element.BF16})
		case "large":
			err = c.AllReduce(ctx, call, 1, buf, buf)
			answer = fmt.Sprintf("%x", sha256.Sum256(buf))
		case "wait":
			fmt.Println("waiting")
			err = calling{call: protocol.Call{Seq: call.Seq, Kind: protocol.Barrier}}.do(ctx, c)
			var e *protocol.PeerError
			switch {
			case !errors.As(err, &e):
			case errors.Is(err, protocol.ErrPeerLost):
				answer, err = fmt.Sprint("lost ", e.Rank), nil
			case errors.Is(err, protocol.ErrTimeout):
				answer, err = fmt.Sprint("late ", e.Missing), nil
			}
		}
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

// child is one rank.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startRank(t *testing.T, h *nettest.Host, rank int, dial string, timeout time.Duration) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: h.Command(t.Context(), exe)}
	c.cmd.Env = append(os.Environ(), fmt.Sprint(rankVariable, "=", rank), dialVariable+"="+dial, fmt.Sprint(timeVariable, "=", timeout))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.in.Close()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) tell(what string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, what); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("a rank ended: %v", c.out.Err())
	}
	if s := c.out.Text(); !strings.HasPrefix(s, "failed") {
		return s
	}
	c.t.Fatal(c.out.Text())
	return ""
}

// TestTwoHosts: two processes on two hosts, which share no memory, do the script and a
// large all-reduce. That one sends no more over the wire than it must, and one rank's
// death is known to the other.
func TestTwoHosts(t *testing.T) {
	hosts := nettest.ForTest(t, os.Getenv)
	first := startRank(t, hosts[0], 0, hosts[0].Addr, hang)
	second := startRank(t, hosts[1], 1, first.line(), hang)
	ranks := []*child{first, second}
	both := func(what string) (answers []string) {
		for _, r := range ranks {
			r.tell(what)
		}
		for _, r := range ranks {
			answers = append(answers, r.line())
		}
		return answers
	}
	both("script")

	var before [2]uint64
	for i, h := range hosts {
		before[i], _ = h.Sent()
	}
	sums := both("large")
	for i, h := range hosts {
		after, err := h.Sent()
		if err != nil {
			t.Fatal(err)
		}
		// Half of the buffer to be folded, and the folded other half.
		sent, least := after-before[i], uint64(large*4)
		t.Logf("%s sent %.3f of the least that it could", h.Name, float64(sent)/float64(least))
		if sent < least || sent > least*11/10 {
			t.Errorf("%s sent %d bytes for %d", h.Name, sent, least)
		}
	}
	a, b := fill(rand.New(rand.NewPCG(0, 0)), element.F32, large), fill(rand.New(rand.NewPCG(1, 0)), element.F32, large)
	want := fmt.Sprintf("%x", sha256.Sum256(reference(element.Sum, element.F32, 1, nil, [][]byte{a, b})))
	if sums[0] != want || sums[1] != want {
		t.Errorf("sums %v, expected %s", sums, want)
	}

	first.tell("wait")
	if s := first.line(); s != "waiting" {
		t.Fatal(s)
	}
	began := time.Now()
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if s := first.line(); s != "lost 1" {
		t.Error(s)
	}
	t.Log("a death is known after", time.Since(began))
}

// TestUnplugged: a cable is pulled. No socket tells of it for a while, but the timeout
// does, on both hosts.
func TestUnplugged(t *testing.T) {
	t.Parallel() // it waits most of the time
	hosts := nettest.ForTest(t, os.Getenv)
	const timeout = 2 * time.Second
	first := startRank(t, hosts[0], 0, hosts[0].Addr, timeout)
	second := startRank(t, hosts[1], 1, first.line(), timeout)
	ranks := []*child{first, second}
	for _, r := range ranks {
		r.tell("large")
	}
	for _, r := range ranks {
		r.line()
	}
	if err := hosts[1].Unplug(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range ranks {
		r.tell("wait")
	}
	for i, r := range ranks {
		if s := r.line(); s != "waiting" {
			t.Fatal(s)
		}
		if s, want := r.line(), fmt.Sprint("late ", []int{1 - i}); s != want {
			t.Errorf("rank %d: %q, expected %q", i, s, want)
		}
	}
}
