package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

var (
	meddledSteps = flag.Int("meddled.steps", 0, "how many training steps TestMeddled takes; 0: few")
	meddledSeed  = flag.Uint64("meddled.seed", 0, "seed of TestMeddled; 0: the time")
)

// meddledRun is how many steps a session takes, at most.
const meddledRun = 25

// TestMeddled has a client train on workers of two hosts, while a process in the link
// flips bits of packets, drops, repeats and delays them, and cuts connections. Each step
// has the right loss, to the bit, or is an error that names a process, and another
// session goes on.
func TestMeddled(t *testing.T) {
	all := *meddledSteps
	if all == 0 {
		all = 40
		if testsize.Sampled() {
			all = 15
		}
	}
	seed := *meddledSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Log("seed", seed)
	r := &meddledTraining{T: t}
	here := start(t, cluster.Options{Workers: 2, InProcess: true})
	for workers := 1; workers <= 2; workers++ {
		var err error
		e := dial(t, here, &client.Options{Workers: workers})
		if r.want[workers], err = newModel(tensor.NewSession(e, nil)).train(meddledRun); err != nil {
			t.Fatal(err)
		}
	}
	var m *nettest.Meddler
	r.hosts, m = nettest.Meddled(t, os.Getenv, nettest.Odds{nettest.Flip: 250, nettest.Drop: 50, nettest.Repeat: 50, nettest.Delay: 50, nettest.Cut: 600}, seed)
	for i := 0; r.right+r.failed < all; i++ {
		began := time.Now()
		failed := r.failed + r.refused
		r.round(1+i%2, min(meddledRun, all-r.right-r.failed))
		if r.failed+r.refused > failed {
			r.longest = max(r.longest, time.Since(began))
		}
		if r.refused > 10+all {
			t.Errorf("%d sessions did not open", r.refused)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d steps: %d right, %d errors that name a process, 0 wrong; %d sessions did not open, with such an error; "+
		"the longest session that failed took %v; faults of the link: %v", r.right+r.failed, r.right, r.failed, r.refused, r.longest.Round(time.Millisecond), m.Done())
}

// meddledTraining is the state of TestMeddled.
type meddledTraining struct {
	*testing.T
	hosts [2]*nettest.Host
	want  [3][]float64 // losses, by number of workers

	right, failed, refused int
	longest                time.Duration
}

// namesProcess matches errors that say which process or which address is at fault.
var namesProcess = regexp.MustCompile(`worker "?w\d|dispatcher|10\.77\.0\.\d`)

// round starts a dispatcher and a worker on the second host, a worker and a client on the
// first, and has the client take steps.
func (r *meddledTraining) round(workers, steps int) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), 4*patience, errors.New("it hangs"))
	defer cancel()
	file := filepath.Join(r.TempDir(), "far")
	var addr []byte
	r.child(ctx, 1, "linked", filepath.Join(socketDir(r), "d"), file, r.hosts[1].Addr+":0")
	until(r, "a dispatcher", func() bool {
		addr, _ = os.ReadFile(file)
		return len(addr) > 0
	})
	r.child(ctx, 1, "far", string(addr), "w0")
	r.child(ctx, 0, "far", string(addr), "w1")
	p := r.child(ctx, 0, "trainer", string(addr), strconv.Itoa(workers), strconv.Itoa(steps))
	for step := 0; ; {
		line, err := p.out.ReadString('\n')
		if err != nil {
			r.Fatalf("the client ended without a word: %v", err)
		}
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "loss":
			if want := math.Float64bits(r.want[workers][step]); rest != fmt.Sprint(want) {
				r.Errorf("%d workers, step %d: loss %s, expected %d", workers, step, rest, want)
			}
			step++
			r.right++
			continue
		case "refused":
			r.refused++
		case "failed":
			r.failed++
		case "end":
			return
		}
		if !namesProcess.MatchString(rest) {
			r.Errorf("%d workers, step %d: the error names no process: %s", workers, step, rest)
		}
		return
	}
}

// child starts a child on a host, which ends with ctx.
func (r *meddledTraining) child(ctx context.Context, host int, name string, args ...string) *process {
	return begin(r, r.hosts[host].Command(ctx, os.Args[0], append([]string{childArg(), name}, args...)...))
}

// childTrainer trains, and says the bits of each loss or an error.
func childTrainer(ctx context.Context, args []string) error { // ADDR WORKERS STEPS
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	steps, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	say := func(what string, err error) { fmt.Println(what, strings.ReplaceAll(err.Error(), "\n", "; ")) }
	var e *client.Engine
	for { // the workers are on their way
		if e, err = client.Dial(ctx, args[0], &client.Options{Secret: []byte(farSecret), Workers: workers}); !errors.Is(err, client.ErrNoWorker) {
			break
		}
	}
	if err != nil {
		say("refused", err)
		return nil
	}
	defer e.Close()
	m := newModel(tensor.NewSession(e, &tensor.SessionOptions{Context: ctx}))
	for i := range steps {
		loss := m.step(i)
		v, err := loss.Item()
		if err != nil {
			say("failed", err)
			return nil
		}
		loss.Free()
		fmt.Println("loss", math.Float64bits(v))
	}
	fmt.Println("end")
	return nil
}
