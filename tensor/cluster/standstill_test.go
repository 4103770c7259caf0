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
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/shard/config"
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
	pid := c.Parts()[1].PID
	logged := make(lines, 100)
	s := tensor.NewSession(dial(t, c, &client.Options{Logger: slog.New(slog.NewTextHandler(logged, nil))}),
		&tensor.SessionOptions{Context: testContext(t)})
	check := func(text string) {
		t.Helper()
		for _, want := range []string{"w0", stillText(pid)} {
			if !strings.Contains(text, want) {
				t.Errorf("%q, expected %q", text, want)
			}
		}
	}

	stop(t, pid)
	got := make(chan error, 1)
	go func() {
		x, err := tensor.Ones(s, tensor.F32, 100).Sum().Item()
		if err == nil && x != 100 {
			err = fmt.Errorf("%v, expected 100", x)
		}
		got <- err
	}()
	check(<-logged)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("when the worker goes on: %v", err)
	}

	e := dial(t, c, nil)
	stop(t, pid)
	short, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	_, err := tensor.Ones(tensor.NewSession(e, &tensor.SessionOptions{Context: short}), tensor.F32, 100).Sum().Item()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, expected a deadline", err)
	}
	check(err.Error())
}

// stillText is what is said of a process that a signal has stopped.
func stillText(pid int) string {
	return fmt.Sprintf("process %d is stopped by a signal: kill -CONT %d lets it go on", pid, pid)
}

// TestStoppedDispatcher stops the dispatcher by a signal: a client that waits for its
// session says so, and one that waits for an answer through it; a connected worker's log
// has it, and that it goes on.
func TestStoppedDispatcher(t *testing.T) {
	c := start(t, cluster.Options{Workers: 1})
	logged := make(lines, 100)
	w, err := worker.New(&worker.Options{Name: "watching", KeepUnused: 30 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, c.Addr()) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await := func(what string) {
		t.Helper()
		for end := time.After(patience); ; {
			select {
			case line := <-logged:
				if strings.Contains(line, what) {
					return
				}
			case <-end:
				t.Fatalf("the worker's log has no %q", what)
			}
		}
	}
	pid := c.Parts()[0].PID
	waiting := dial(t, c, &client.Options{Config: &config.Config{NumWorkers: 2}})
	stop(t, pid)
	await(stillText(pid))

	for name, f := range map[string]func(ctx context.Context) error{
		"dial": func(ctx context.Context) error { _, err := client.Dial(ctx, c.Addr(), nil); return err },
		"read": func(ctx context.Context) error {
			_, err := tensor.Ones(tensor.NewSession(waiting, &tensor.SessionOptions{Context: ctx}), tensor.F32, 100).Sum().Item()
			return err
		},
	} {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if err := f(short); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), stillText(pid)) {
			t.Errorf("%s: %v, expected a deadline and %q", name, err, stillText(pid))
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await("the dispatcher goes on")
	if x, err := tensor.Ones(session(t, c), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
		t.Errorf("%v, %v; expected 100 of a dispatcher that goes on", x, err)
	}
}
