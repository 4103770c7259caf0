package nettest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// childSend makes the test binary a sender: it sends numbered bytes to an address.
const childSend = "-child-send"

const meddledBytes = 4 << 20

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childSend {
		if err := send(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func numbered() []byte {
	b, r := make([]byte, meddledBytes), rand.NewPCG(1, 2)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}

// send listens, says so, and sends to the first that connects.
func send(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	c, err := l.Accept()
	if err != nil {
		return err
	}
	_, err = c.Write(numbered())
	return err
}

// TestMeddled sends bytes from one host to the other. Drops, repeats and delays the
// kernels make good; flipped bits arrive; a cut is an error.
func TestMeddled(t *testing.T) {
	for _, c := range []struct {
		fault       Fault
		odds        int
		right, ends bool
	}{
		{None, 0, true, true}, {Drop, 100, true, true}, {Repeat, 100, true, true}, {Delay, 400, true, true},
		{Flip, 300, false, true}, {Cut, 100, false, false},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			hosts, m := Meddled(t, os.Getenv, Odds{c.fault: c.odds}, 1)
			got, err := meddledTransfer(t, hosts)
			right := bytes.Equal(got, numbered())
			if done := m.Done()[c.fault]; (done > 0) != (c.odds > 0) || right != c.right || c.right && err != nil || !c.ends && err == nil {
				t.Errorf("%d faults: right %v, %v; %d bytes arrived", done, right, err, len(got))
			}
		})
	}
}

// meddledTransfer returns what bash on a host receives from the other one.
func meddledTransfer(t *testing.T, hosts [2]*Host) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sender := hosts[0].Command(ctx, os.Args[0], childSend, hosts[0].Addr+":0")
	out, err := sender.StdoutPipe()
	if err == nil {
		err = sender.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sender.Process.Kill()
		_ = sender.Wait()
	}()
	var host string
	var port int
	if _, err := fmt.Fscanf(out, "10.77.0.%1s:%d\n", &host, &port); err != nil {
		t.Fatal(err)
	}
	return hosts[1].Command(ctx, "bash", "-c", fmt.Sprintf("exec cat </dev/tcp/%s/%d", hosts[0].Addr, port)).Output()
}
