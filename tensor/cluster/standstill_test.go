package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// lines is a writer of a log that hands each line on.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestStandstill stops a worker by a signal. A client that waits says
// which process stands still, and how it goes on: in its log while it waits without a
// deadline, and in its error with one.
func TestStandstill(t *testing.T) {
	c := start(t, cluster.Options{Workers: 1})
	worker := c.Parts()[1].PID
	logged := make(lines, 100)
	s := tensor.NewSession(dial(t, c, &client.Options{Logger: slog.New(slog.NewTextHandler(logged, nil))}),
		&tensor.SessionOptions{Context: testContext(t)})
	check := func(text string) {
		t.Helper()
		for _, want := range []string{"w0", fmt.Sprintf("process %d is stopped by a signal: kill -CONT %d lets it go on", worker, worker)} {
			if !strings.Contains(text, want) {
				t.Errorf("%q, expected %q", text, want)
			}
		}
	}

	stop(t, worker)
	got := make(chan error, 1)
	go func() {
		x, err := tensor.Ones(s, tensor.F32, 100).Sum().Item()
		if err == nil && x != 100 {
			err = fmt.Errorf("%v, expected 100", x)
		}
		got <- err
	}()
	check(<-logged)
	if err := syscall.Kill(worker, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("when the worker goes on: %v", err)
	}

	e := dial(t, c, nil)
	stop(t, worker)
	short, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	_, err := tensor.Ones(tensor.NewSession(e, &tensor.SessionOptions{Context: short}), tensor.F32, 100).Sum().Item()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, expected a deadline", err)
	}
	check(err.Error())
}

// TestStoppedDispatcher stops the dispatcher by a signal: a client that waits for its
// session says so.
func TestStoppedDispatcher(t *testing.T) {
	c := start(t, cluster.Options{Workers: 1})
	pid := c.Parts()[0].PID
	stop(t, pid)
	ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	_, err := client.Dial(ctx, c.Addr(), nil)
	want := fmt.Sprintf("process %d is stopped by a signal: kill -CONT %d lets it go on", pid, pid)
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected a deadline and %q", err, want)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if x, err := tensor.Ones(session(t, c), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
		t.Errorf("%v, %v; expected 100 of a dispatcher that goes on", x, err)
	}
}
