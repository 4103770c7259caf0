package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

const (
	// keptClients is how many clients of a kind come and go between two counts.
	keptClients = 200

	// keptMost is how many objects of the heap may be more behind them. Go's runtime
	// keeps some when there are more goroutines or threads than ever before; an object
	// for every client is much more.
	keptMost = keptClients / 4

	// keptTries is how often the clients come. Objects that are kept once are the same
	// the next time.
	keptTries = 4
)

// TestNothingKeptOfClients counts the objects on the heaps of the dispatcher and of
// workers before and after many clients of one kind: none stays for a client that came
// and went, however it did.
func TestNothingKeptOfClients(t *testing.T) {
	if testsize.Raced || testing.Short() {
		t.Skip("it counts what many clients leave, which is the same without the race detector")
	}
	s := &soak{chaos: &chaos{T: t, sockets: socketDir(t), errors: map[string]int{}, kills: map[string]int{}},
		far: filepath.Join(t.TempDir(), "far"), first: map[string][]float64{}}
	s.addr = filepath.Join(s.sockets, "d")
	s.ctx, s.cancel = context.WithCancel(testContext(t))
	defer func() {
		s.calm.Store(true)
		s.cancel()
		s.running.Wait()
	}()
	s.watched("dispatcher", "linked", s.addr, s.far, anyPort)
	for i := range soakWorkers {
		s.watched("worker", "worker", "--connect", s.addr, "--name", fmt.Sprint("w", i), "")
	}
	s.crowd(soakCrowd)
	one := func(kind string) func(n int) error {
		return s.each(func() error {
			return s.open(s.ctx, kind, func(session *tensor.Session) error {
				_, err := tensor.Ones(session, tensor.F32, 2000).AddS(1).Sum().Item()
				return err
			})
		})
	}
	for _, kind := range []struct {
		name string
		come func(n int) error
	}{
		{"near", one("near")},
		{"of two workers", one("two")},
		{"far", one("far")},
		{"killed", s.killedOwners},
		{"without a session", s.each(func() error {
			c, err := local.New().Dial(s.ctx, s.addr, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: "silent"}})
			if err == nil {
				err = c.Close()
			}
			return err
		})},
		{"that ask for the status", s.each(func() error {
			_, err := client.Status(s.ctx, nil, s.addr)
			return err
		})},
	} {
		s.keeps(kind.name, kind.come)
	}
}

// keeps has clients of a kind come and go until no process has grown, a few times at
// most.
func (s *soak) keeps(kind string, come func(n int) error) {
	s.Helper()
	before := s.objects(nil)
	for try := 1; ; try++ {
		if err := come(keptClients); err != nil {
			s.Errorf("clients %s: %v", kind, err)
			return
		}
		after := s.objects(before)
		grown := ""
		for i, p := range s.parts {
			if n := after[i].objects - before[i].objects; n > keptMost {
				grown += fmt.Sprintf("; %s: %d objects, %d before", p.name, after[i].objects, before[i].objects)
			}
		}
		s.Logf("%d clients %s: %d objects more in the dispatcher, %d and %d in the workers", keptClients, kind,
			after[0].objects-before[0].objects, after[1].objects-before[1].objects, after[2].objects-before[2].objects)
		if grown == "" {
			return
		}
		if try == keptTries {
			s.Errorf("%d clients %s, each time: %s", keptClients, kind, grown[2:])
			return
		}
		before = after
	}
}

// objects takes the figures when no client is left, and again while there are more
// objects than before and their number falls: timers and the collector let go of them.
func (s *soak) objects(before []figures) []figures {
	all := s.figures(false, before)
	for same := 0; same < 20; same++ {
		more := before == nil
		for i := range before {
			more = more || all[i].objects > before[i].objects+keptMost
		}
		if !more {
			break
		}
		next := s.read()
		for i := range next {
			if next[i].objects < all[i].objects {
				same = 0
			}
		}
		all = next
	}
	return all
}

// each returns a function that has n clients do something, four at a time.
func (s *soak) each(do func() error) func(n int) error {
	return func(n int) error {
		var left atomic.Int64
		left.Store(int64(n))
		var mu sync.Mutex
		var failed error
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				for left.Add(-1) >= 0 {
					if err := do(); err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
				}
			})
		}
		running.Wait()
		return failed
	}
}

// killedOwners has processes open n sessions in all, and kills them.
func (s *soak) killedOwners(n int) error {
	const each = 20
	for range n / each {
		p := run(s, "sessions", s.addr, fmt.Sprint(each))
		if _, err := p.out.ReadString('\n'); err != nil {
			return err
		}
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	return nil
}

// childSessions opens sessions, uses them, and keeps them until it is killed: ADDR N.
func childSessions(ctx context.Context, args []string) error {
	n := 0
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	for range n {
		e, err := client.Dial(ctx, args[0], nil)
		if err != nil {
			return err
		}
		defer e.Close()
		if _, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil {
			return err
		}
	}
	fmt.Println("open")
	<-ctx.Done()
	return nil
}
