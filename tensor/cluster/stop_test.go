package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// childEndless runs a program that takes hours.
func childEndless(ctx context.Context, args []string) error { // ADDR
	e, err := client.Dial(ctx, args[0], &client.Options{Name: "endless"})
	if err != nil {
		return err
	}
	defer e.Close()
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	s.Scope(func(sc *tensor.Scope) {
		sc.Keep(tensor.Ones(s, tensor.F32, 1, 1).Expand(1<<22, 1<<22).Sum())
	})
	if err := s.Flush(); err != nil {
		return err
	}
	fmt.Println("running")
	return s.Sync()
}

// freeWithin is far more than a worker needs to notice that a client is gone, and far
// less than the client's program takes.
const freeWithin = 5 * time.Second

// TestDeadClientFreesItsWorker kills clients whose programs would run for hours. An
// honest session on the same worker gets right results, and waits for a short time only.
func TestDeadClientFreesItsWorker(t *testing.T) {
	c := start(t, cluster.Options{})
	s := session(t, c)
	for range 3 {
		p := run(t, "endless", c.Addr())
		if line, err := p.out.ReadString('\n'); err != nil || line != "running\n" {
			t.Fatalf("%q, %v; expected running", line, err)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		x, err := tensor.Ones(s, tensor.F32, 100).Sum().Item()
		if err != nil || x != 100 {
			t.Errorf("%v, %v; expected 100", x, err)
		}
		took := time.Since(killed)
		t.Logf("the worker ran another client's program %v after the kill", took)
		if took > freeWithin {
			t.Errorf("the worker was free after %v, expected at most %v", took, freeWithin)
		}
	}
}
