package breaker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// childCrowd is many clients that come at once. Each waits for its turn, computes and
// goes.
func childCrowd(ctx context.Context, args []string) error { // ADDR CLIENTS
	var clients int
	if _, err := fmt.Sscan(args[1], &clients); err != nil {
		return err
	}
	done := make(chan error, clients)
	began := time.Now()
	for range clients {
		go func() {
			done <- func() error {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				e, err := client.Dial(ctx, args[0], nil)
				if err != nil {
					return err
				}
				defer e.Close()
				x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item()
				if err == nil && x != 100 {
					err = fmt.Errorf("got %v, expected 100", x)
				}
				return err
			}()
		}()
	}
	fmt.Println("they come")
	var errs []error
	for range clients {
		if err := <-done; err != nil {
			errs = append(errs, err)
			fmt.Println("a client failed:", err)
		}
	}
	fmt.Printf("%d of %d clients failed, the last was done after %v\n", len(errs), clients, time.Since(began))
	return errors.Join(errs...)
}

// TestCrowd has very many clients come at once, while an honest one trains.
func TestCrowd(t *testing.T) {
	clients := 1000
	if testing.Short() {
		clients = 150
	}
	c := start(t, cluster.Options{Workers: 1})
	h := newHonest(t, dial(t, c, 1))
	for _, p := range c.Parts() {
		if p.Name == "w0" {
			h.watched = p.PID
		}
	}
	crowd := exec.Command(os.Args[0], childFlag, "crowd", c.Addr(), fmt.Sprint(clients))
	crowd.Stderr = os.Stderr
	crowd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := crowd.StdoutPipe()
	if err == nil {
		err = crowd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	over := make(chan struct{})
	t.Cleanup(func() { // no line is logged after the test
		_ = crowd.Process.Kill()
		<-over
	})
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			t.Log(lines.Text())
		}
		end <- crowd.Wait()
	}()
	for {
		h.round()
		select {
		case err := <-end:
			if err != nil {
				t.Errorf("the crowd: %v", err)
			}
			h.report("a crowd", maxStallFull)
			return
		default:
		}
	}
}
