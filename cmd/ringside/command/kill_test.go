package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// killSeed repeats a run of TestKillWhileTraining or TestKillOnGPUs.
var killSeed = flag.Uint64("kill-seed", 0, "seed of the moments at which TestKillWhileTraining and TestKillOnGPUs kill; 0 takes one from the clock")

// notice is the time after which a process that has not noticed a death counts as
// hanging. The time it took is printed: about a tenth of a second on an idle machine.
const notice = 30 * time.Second

// latestKill is when, after the clients have been started, they have long been training.
const latestKill = 500 * time.Millisecond

// TestKillWhileTraining starts a dispatcher, two workers and two clients that train, each
// a process, and kills one of them at a random moment after the clients' start. The
// others carry on or end with an error that names the dead process. One of up is
// started again. Nothing is left in the runtime folder or in shared memory.
func TestKillWhileTraining(t *testing.T) {
	r := killRand(t)
	moments := 50
	if testsize.Sampled() {
		moments = 8
	}
	shm := ownShm(t)
	text := textFile(t)
	var longest time.Duration
	for i := range moments {
		k := &killing{
			T: t, r: r, at: time.Duration(r.Int64N(int64(latestKill))), within: notice,
			victim: []string{"worker", "dispatcher", "client", "up"}[i%4],
			up:     []string{"-n", "2"},
		}
		for range 2 {
			k.train = append(k.train, []string{"--data", text, "--steps", "1000000", "--batch", "1", "--json", "--loss-every", strconv.Itoa(1 + 9*r.IntN(2))})
		}
		k.round()
		longest = max(longest, k.took)
		ctx, cancel := context.WithTimeout(t.Context(), notice)
		drained(t, ctx, shm)
		cancel()
		if t.Failed() {
			t.Fatalf("moment %d: %s killed %v after the clients' start", i, k.victim, k.at)
		}
	}
	t.Logf("%d kills; the others took at most %v", moments, longest.Round(time.Millisecond))
}

// killRand returns the numbers of -kill-seed, which it prints.
func killRand(t *testing.T) *rand.Rand {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kill-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// ownShm gives this goroutine's thread, and the processes that it starts, a private
// /dev/shm, so that only they use space there. The thread ends with the test. It returns
// "" where mounting is not allowed.
func ownShm(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		testneeds.Root.Logf(t, os.Getenv, "shared memory is not looked at: a mount of the test's own needs root")
		return ""
	}
	runtime.LockOSThread()
	const dir = "/dev/shm"
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		testneeds.Root.Logf(t, os.Getenv, "shared memory is not looked at: %v", err)
		return ""
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512m"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// drained waits until nothing of dir is used: the kernel frees a dead process's memory
// after a delay.
func drained(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	if dir == "" {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if st.Blocks == st.Bfree {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d blocks of shared memory are left", st.Blocks-st.Bfree)
		}
	}
}

// killing is one round.
type killing struct {
	*testing.T
	r      *rand.Rand
	up     []string   // further arguments of up
	train  [][]string // and of each client's train
	victim string
	at     time.Duration
	within time.Duration // after which a process that has not noticed counts as hanging
	took   time.Duration // until all others had noticed
	addr   string
	pids   map[string]int
	killed time.Time
}

func (k *killing) round() {
	k.Helper()
	dir, err := os.MkdirTemp("", "rs") // a socket's path must be short
	if err != nil {
		k.Fatal(err)
	}
	defer os.RemoveAll(dir)
	k.addr = filepath.Join(dir, "d")
	up := start(k.T, append([]string{"up", "--listen", k.addr}, k.up...)...)
	k.pids = map[string]int{"up": up.Process.Pid}
	for _, part := range []string{"dispatcher", "worker w0", "worker w1"} {
		if k.pids[part], err = strconv.Atoi(up.wait("^" + part + `: process (\d+)`)[1]); err != nil {
			k.Fatal(err)
		}
	}
	up.wait("^ready")
	var clients []*command
	for _, args := range k.train {
		clients = append(clients, start(k.T, append([]string{"train", "--connect", k.addr}, args...)...))
	}
	<-time.After(k.at)

	ctx, cancel := context.WithTimeout(k.Context(), k.within)
	defer cancel()
	switch k.victim {
	case "worker":
		name := fmt.Sprintf("w%d", k.r.IntN(2))
		pid := k.pids["worker "+name]
		k.kill(pid)
		k.status(ctx, "a new "+name, func(s client.Counters) bool {
			now := s.Get("worker." + name + ".pid")
			return now != 0 && now != uint64(pid) && s.Get("workers") == 2
		})
		// Only the clients with a session on that worker lose it; the others notice
		// nothing.
		lost := regexp.MustCompile(fmt.Sprintf(`session lost.*worker.*%q \(pid %d\)`, name, pid))
		for _, c := range clients {
			k.survives(ctx, c, lost)
		}
		k.interrupted(up)
	case "dispatcher":
		k.kill(k.pids["dispatcher"])
		k.until(ctx, "a new dispatcher with both workers", func() bool {
			s, err := client.Status(ctx, nil, k.addr)
			return err == nil && s.Get("workers") == 2
		})
		k.noticed()
		// Clients with a session go on; one that was about to open its own is told.
		lost := regexp.MustCompile(`session lost: dispatcher at ` + k.addr + `|no process listens at ` + k.addr + `|` + k.addr + `.*(closed|gone|died)`)
		for _, c := range clients {
			k.survives(ctx, c, lost)
		}
		k.interrupted(up)
	case "client":
		k.kill(clients[0].Process.Pid)
		k.status(ctx, "the session's end", func(s client.Counters) bool { return s.Get("sessions") <= 1 })
		k.survives(ctx, clients[1], nil)
		k.interrupted(up)
	case "up":
		k.kill(k.pids["up"])
		for _, c := range clients {
			k.dies(ctx, c, regexp.MustCompile(`session lost|no process listens|`+k.addr))
		}
		for what, pid := range k.pids {
			if what != "up" {
				k.until(ctx, "end of "+what, func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
			}
		}
		k.until(ctx, "empty runtime folder", func() bool { return len(listing(k.T, dir)) == 1 })
	}
	if left := listing(k.T, dir); len(left) != 1 {
		k.Errorf("left in the runtime folder: %v", left[1:])
	}
}

func (k *killing) kill(pid int) {
	k.Helper()
	k.killed = time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		k.Fatal(err)
	}
}

// noticed notes that one of the others knows.
func (k *killing) noticed() { k.took = max(k.took, time.Since(k.killed)) }

// ended waits for a process's end and returns what it said.
func (k *killing) ended(ctx context.Context, c *command) (said string, err error) {
	k.Helper()
	var all strings.Builder
	for {
		select {
		case line, ok := <-c.lines:
			if ok {
				fmt.Fprintln(&all, line)
				continue
			}
			return all.String(), <-c.done
		case <-ctx.Done():
			k.Fatalf("%v does not end within %v of the death of %s:\n%s", c.Args[1:], k.within, k.victim, &all)
		}
	}
}

// dies: the process ends by itself, with an error that matches.
func (k *killing) dies(ctx context.Context, c *command, says *regexp.Regexp) {
	k.Helper()
	said, err := k.ended(ctx, c)
	k.noticed()
	var exit *exec.ExitError
	if exit, _ = err.(*exec.ExitError); exit == nil || exit.ExitCode() != 1 || !says.MatchString(said) || strings.Contains(said, "goroutine ") {
		k.Errorf("%v: %v, want exit status 1 and %q in\n%s", c.Args[1:], err, says, said)
	}
}

// survives checks that a client goes on until it is interrupted or, if lost is given,
// ends with an error that matches it. The interrupt comes after the client's first
// output: a process that has only just begun does not yet catch signals.
func (k *killing) survives(ctx context.Context, c *command, lost *regexp.Regexp) {
	k.Helper()
	var first string
	select {
	case first = <-c.lines:
	case <-ctx.Done():
		k.Fatalf("%v says nothing within %v of the death of %s", c.Args[1:], k.within, k.victim)
	}
	_ = c.Process.Signal(os.Interrupt)
	said, err := k.ended(ctx, c)
	said = first + "\n" + said
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 130 && strings.Contains(said, "\n{") {
		err = nil // it says how far it came
	}
	if err != nil {
		// Early, there is nothing yet that could end in good order.
		if !strings.Contains(said, "ringside: interrupted") && (lost == nil || !lost.MatchString(said)) {
			k.Errorf("%v: %v, want it to go on, or to say %q:\n%s", c.Args[1:], err, lost, said)
		}
		k.noticed()
		return
	}
	var o outcome
	if err := json.Unmarshal([]byte(said[strings.LastIndex(said, "\n{")+1:]), &o); err != nil || !o.Stopped {
		k.Errorf("%v: interrupted it says %v:\n%s", c.Args[1:], err, said)
	}
}

// interrupted ends a cluster in good order.
func (k *killing) interrupted(up *command) {
	k.Helper()
	_ = up.Process.Signal(os.Interrupt)
	if said, err := k.ended(k.Context(), up); err != nil {
		k.Errorf("up, interrupted: %v\n%s", err, said)
	}
}

// status waits for the dispatcher to say something.
func (k *killing) status(ctx context.Context, what string, ok func(client.Counters) bool) {
	k.Helper()
	k.until(ctx, what, func() bool {
		s, err := client.Status(ctx, nil, k.addr)
		if err != nil {
			k.Fatalf("waiting for %s: %v", what, err)
		}
		return ok(s)
	})
	k.noticed()
}

func (k *killing) until(ctx context.Context, what string, ok func() bool) {
	k.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			k.Fatalf("%v after the death of %s at %v: no %s", k.within, k.victim, k.at, what)
		}
	}
}

// zombie reports whether a process is dead and waits to be reaped.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
