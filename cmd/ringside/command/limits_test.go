package command

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// tmpfs mounts a file system of that size, which root alone can.
func tmpfs(t *testing.T, size string, flags uintptr) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size="+size); err != nil {
		testneeds.Root.Skipf(t, os.Getenv, "only root mounts a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	})
	return dir
}

// TestTooFewThreads starts what needs more threads than a control group leaves. It is an
// error that says so, where the Go runtime ended a process of the cluster, and nothing is
// left in the group.
func TestTooFewThreads(t *testing.T) {
	runtimeDir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	group := limitstest.ThreadGroup(t, os.Getenv, 24)
	text := textFile(t)
	for name, args := range map[string][]string{
		"up":    {"up", "-n", "2"},
		"train": {"train", "--workers", "2", "--data", text, "--steps", "1"},
		"run":   {"run", "-n", "20", "--", "sleep", "60"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := exec.Command("sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, exe}, args...)...).CombinedOutput()
			want := regexp.MustCompile(`^ringside: \w+: too few threads: .* need \d+.*, and \d+ of 24 processes and threads are left by the cgroup /ringside-test-pids-\d+: .*raise it by pids.max of the cgroup \d+`)
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !want.Match(said) || strings.Count(string(said), "\n") != 1 {
				t.Errorf("%v: %s, expected one line as %v", err, said, want)
			}
			if left, err := os.ReadFile(filepath.Join(group, "cgroup.procs")); err != nil || len(left) > 0 {
				t.Errorf("%v, processes %q are left in the group", err, left)
			}
		})
	}
}

// TestOwnThreads has few threads lower the cores that this process uses.
func TestOwnThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, free := range []int{1 << 20, threadsOfCore * before, fewThreads} {
		if err := ownThreads(limits.Threads{Free: free}); err != nil {
			t.Error(err)
		}
		if got, want := runtime.GOMAXPROCS(0), min(before, free/threadsOfCore); got != want {
			t.Errorf("%d cores with %d threads, expected %d", got, free, want)
		}
	}
	if err := ownThreads(limits.Threads{Free: fewThreads - 1}); err == nil {
		t.Error("no error with too few threads")
	}
}

// TestShare wants no more threads for a worker than an engine takes, on any machine.
func TestShare(t *testing.T) {
	for _, c := range []struct{ cores, workers, each int }{{1, 2, 1}, {64, 2, 32}, {128, 3, 42}, {192, 1, 192}, {192, 193, 1}, {2048, 1, cpu.MaxThreads}} {
		if got := share(limits.Cores{N: c.cores}, c.workers); got != c.each {
			t.Errorf("%d cores each for %d workers on %d, expected %d", got, c.workers, c.cores, c.each)
		}
	}
}

// TestLittleSpace gives a command more and more address space, or memory of its own, from
// so little on that the Go runtime can't begin. With the least that it begins with, the
// error has the figures, where the C library ended the process later.
func TestLittleSpace(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if testsize.Raced {
		t.Skip("the race detector maps terabytes, which no limit allows")
	}
	for flag, step := range map[string]int{"-v": 128 << 10, "-d": 16 << 10} {
		limit, crashed := 0, true
		var said []byte
		for range 64 {
			limit += step
			said, err = exec.Command("sh", "-c", fmt.Sprintf(`ulimit %s %d && exec "$@"`, flag, limit), "sh", exe, "plot", "nowhere").CombinedOutput()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() == 1 {
				crashed = false
				break
			}
		}
		want := regexp.MustCompile(`^ringside: too little [a-z ]+: this process may have \d+ MiB, of which \d+ are left, expected \d+: raise it by ulimit ` + flag)
		if crashed || !want.Match(said) {
			t.Errorf("ulimit %s %d: %v, %.300s", flag, limit, err, said)
		}
	}
}

// TestLittleSpaceRaised starts clusters with more address space than the runtime of Go
// begins with, and less than their processes need: an error says so before one begins, in
// place of the crash of one. With what the error asks for they run.
func TestLittleSpaceRaised(t *testing.T) {
	if testsize.Raced {
		t.Skip("the race detector maps terabytes, which no limit allows")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtimeDir(t)
	for name, args := range map[string][]string{
		"up":    {"up", "-n", "2"},
		"train": {"train", "--workers", "2", "--data", textFile(t), "--steps", "1", "--batch", "2", "--sample=-1"},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(limit string) *exec.Cmd {
				return exec.Command("sh", append([]string{"-c", `ulimit -v "$0" && exec "$@"`, limit, exe}, args...)...)
			}
			said, err := with("2048000").CombinedOutput()
			m := regexp.MustCompile(`^ringside: cluster: its processes can't begin: too little address space: a process may have 2000 MiB, expected \d+: raise it by ulimit -v (\d+), or LimitAS=\d+K in a service\n$`).FindSubmatch(said)
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || m == nil {
				t.Fatalf("%v: %.300s", err, said)
			}
			c := with(string(m[1]))
			if name == "train" {
				if said, err := c.CombinedOutput(); err != nil {
					t.Errorf("with ulimit -v %s: %v: %.300s", m[1], err, said)
				}
				return
			}
			up := startCmd(t, c)
			up.wait(`^ready at (\S+);`)
			endUp(t, up)
		})
	}
}

// TestFewThreadsDo runs commands that must work where hardly a thread is left.
func TestFewThreadsDo(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	group := limitstest.ThreadGroup(t, os.Getenv, 9)
	for _, name := range []string{"version", "doctor"} {
		said, err := exec.Command("sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, exe, name).CombinedOutput()
		if strings.Contains(string(said), "threads: this process needs") || len(said) == 0 {
			t.Errorf("%s: %v, %s", name, err, said)
		}
	}
}

// TestUpWithThreadsEnough runs a cluster in a group with hardly more threads than it asks
// for.
func TestUpWithThreadsEnough(t *testing.T) {
	runtimeDir(t)
	up := upIn(t, limitstest.ThreadGroup(t, os.Getenv, 64))
	addr := up.wait(`^ready at (\S+);`)[1]
	s, err := client.Open(t.Context(), &client.Options{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tensor.Ones(s, tensor.F32, 1e6).Sum().Item(); n != 1e6 || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	endUp(t, up)
}

// contents returns digests of the files below dir, but for the filler.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == filler {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(b))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// filler is a file that leaves no room.
const filler = "filler"

// fill leaves room for so many bytes in dir.
func fill(t *testing.T, dir string, room uint64) {
	t.Helper()
	_ = os.Remove(filepath.Join(dir, filler))
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filler), make([]byte, st.Bavail*uint64(st.Bsize)-room), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk writes to a file system without room. The error has its figures, what was
// there stays as it was, and nothing half written is left.
func TestFullDisk(t *testing.T) {
	runtimeDir(t)
	dir, text := tmpfs(t, "8m", 0), textFile(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	here := []string{"train", "--in-process", "--data", text, "--steps", "2", "--sample", "0", "--loss-every", "1"}
	two := []string{"train", "--workers", "2", "--data", text, "--steps", "2", "--sample", "0"}
	logs := filepath.Join(t.TempDir(), "logs")
	run := func(args []string, more ...string) (string, error) {
		out, _, err := execute(t, append(append([]string(nil), args...), more...)...)
		return out, err
	}
	manifest := in("manifest.json")
	for _, args := range [][]string{
		append(here, "--save", in("model.safetensors"), "--checkpoint", in("checkpoint"), "--log-dir", logs),
		{"gather", "init", "--model", in("model.safetensors"), "--manifest", manifest},
		{"gather", "plan", "--manifest", manifest, "--peers", "1,2", "--window", "1", "--plan", in("plan.json")},
		{"plot", logs, "--png", in("losses.png"), "--svg", in("losses.svg")},
		{"export", "--load", in("checkpoint"), "--to", in("exported")},
	} {
		if _, err := run(args); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	fill(t, dir, 0)
	before := contents(t, dir)
	for name, args := range map[string][]string{
		"checkpoint":            append(here, "--resume", in("checkpoint"), "--steps", "3"),
		"checkpoint of workers": append(two, "--resume", in("checkpoint"), "--steps", "3"),
		"weights":               append(here, "--save", in("model.safetensors")),
		"export":                {"export", "--load", in("model.safetensors"), "--to", in("exported")},
		"plan":                  {"gather", "plan", "--manifest", manifest, "--peers", "1,2,3", "--window", "2", "--plan", in("plan.json")},
		"manifest":              {"gather", "init", "--model", in("model.safetensors"), "--manifest", manifest, "--bins", "2"},
		"update": {"gather", "put", "--from", in("model.safetensors"), "--to", filepath.Join(dir, "exported", "model.safetensors"), "--manifest", manifest,
			"--uid", "1", "--window", "1", "--store", in("store")},
		"png": {"plot", logs, "--png", in("losses.png")},
		"svg": {"plot", logs, "--svg", in("losses.svg")},
	} {
		_, err := run(args)
		if err == nil || !strings.Contains(err.Error(), "no space left on device: its file system has 8388608 bytes, of which ") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, expected the figures of the file system of %s", name, err, dir)
		}
		if after := contents(t, dir); after != before {
			t.Errorf("%s left\n%sbefore it was\n%s", name, after, before)
		}
	}
	// These files grow while a run goes on, which goes on without them to its end.
	for flag, args := range map[string][]string{"log-dir": here, "cpuprofile": here, "trace": two, "log": two} {
		out, err := run(args, "--"+flag, in("of-"+flag))
		if err == nil || !strings.Contains(err.Error(), "no space left on device: its file system has ") || strings.Count(err.Error(), "of-"+flag) != 1 {
			t.Errorf("--%s: %v, expected the figures of the file system, and the path once", flag, err)
		}
		if !strings.Contains(out, "held out") {
			t.Errorf("--%s: it did not end: %s", flag, out)
		}
	}
	if err := os.Remove(in(filler)); err != nil {
		t.Fatal(err)
	}
	if _, err := run(here, "--resume", in("checkpoint"), "--steps", "3"); err != nil {
		t.Errorf("going on from the checkpoint that was there: %v", err)
	}
}

// TestNoFilesLeft writes to a file system that has room, and all the files that it may
// have.
func TestNoFilesLeft(t *testing.T) {
	runtimeDir(t)
	dir, text := tmpfs(t, "8m,nr_inodes=2", 0), textFile(t)
	if err := os.WriteFile(filepath.Join(dir, filler), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--save", "--checkpoint", "--trace", "--log-dir"} {
		_, _, err := execute(t, "train", "--workers", "1", "--data", text, "--steps", "1", "--sample", "0", flag, filepath.Join(dir, "x"))
		if err == nil || !strings.Contains(err.Error(), "no space left on device: its file system has all 2 files that it may have") {
			t.Errorf("%s: %v, expected the number of files", flag, err)
		}
	}
}

// TestLargestFile has the trace of a cluster reach the limit of the size of files: it is
// told with the limit, and the cluster goes on without it.
func TestLargestFile(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "events")
	up := start(t, "up", "-n", "1", "--trace", file)
	addr := up.wait(`^ready at (\S+);`)[1]
	if err := unix.Prlimit(up.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := client.Open(t.Context(), &client.Options{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	// The trace is written in pieces of 64 KiB.
	for told := false; !told; {
		for range 100 {
			if n, err := tensor.Ones(s, tensor.F32, 10).Sum().Item(); n != 10 || err != nil {
				t.Fatal(n, err)
			}
		}
		select {
		case line := <-up.lines:
			want := fmt.Sprintf(`msg="the trace has ended" err="%s: write: file too large: a file of this process may have 4096 bytes: raise it by ulimit -f`, file)
			if told = true; !strings.Contains(line, want) || !strings.Contains(line, "; the events from 0s on are missing in it") {
				t.Errorf("%q, expected %q, and from when on events are missing", line, want)
			}
			if b, err := os.ReadFile(file); err != nil || len(b) > 4096 || !json.Valid(b) || !strings.Contains(string(b), `"cut":`) {
				t.Errorf("%v, %d bytes: %.300q at the end, expected JSON that says why it ends", err, len(b), b[max(0, len(b)-300):])
			}
		default:
		}
	}
	if n, err := tensor.Ones(s, tensor.F32, 10).Sum().Item(); n != 10 || err != nil {
		t.Error(n, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	endUp(t, up)
}

// endUp interrupts ringside up, which is to end without an error.
func endUp(t *testing.T, up *command) {
	t.Helper()
	_ = up.Process.Signal(os.Interrupt)
	up.wait("^ended$")
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}

// TestFullShm runs a cluster whose tensors lie in the folder of a small tmpfs. A session
// for which it is full gets an error with its figures and what to do, while another one
// goes on; no process is killed.
func TestFullShm(t *testing.T) {
	runtimeDir(t)
	dir := tmpfs(t, "64m", 0)
	up := start(t, "up", "-n", "1", "--shm", dir)
	addr := up.wait(`^ready at (\S+);`)[1]
	before, err := client.Status(t.Context(), nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *tensor.Session {
		s, err := client.Open(t.Context(), &client.Options{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	greedy, modest := open(), open()
	mine := tensor.Ones(modest, tensor.F32, 1000)
	if n, err := mine.Sum().Item(); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	for range 2 {
		var held []*tensor.Tensor
		for err = nil; err == nil && len(held) < 100; {
			held = append(held, tensor.Rand(greedy, tensor.F32, 1000, 1000))
			_, err = held[len(held)-1].Sum().Item()
		}
		want := regexp.MustCompile(regexp.QuoteMeta(dir) + ` has \d+ free of 67108864: remove files there, or enlarge it \(mount -o remount,size=\), or use memory without a folder \(memfd\)`)
		if !errors.Is(err, tensor.ErrNoSpace) || !want.MatchString(err.Error()) {
			t.Errorf("%d tensors of 4 MB: %v, expected %v", len(held), err, want)
		}
		if n, err := mine.Sum().Item(); n != 1000 || err != nil {
			t.Errorf("the other session got %v, %v", n, err)
		}
		for _, h := range held {
			h.Free()
		}
		greedy.ClearErr()
		if n, err := tensor.Ones(greedy, tensor.F32, 1e6).Sum().Item(); n != 1e6 || err != nil {
			t.Errorf("the session that had no room got %v, %v once it had", n, err)
		}
	}
	sameProcesses(t, addr, before)
	if err := errors.Join(greedy.Close(), modest.Close()); err != nil {
		t.Error(err)
	}
	endUp(t, up)
}

// TestNoRuntimeFolder runs commands where the folder of sockets can't be made or written
// to: the error names it, the variable that says it, and the flag where there is one.
func TestNoRuntimeFolder(t *testing.T) {
	text := textFile(t)
	sealed := tmpfs(t, "1m", 0)
	if err := os.Mkdir(filepath.Join(sealed, "ringside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", sealed, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{
		"absent":              filepath.Join(t.TempDir(), "absent"),
		"read-only":           tmpfs(t, "1m", unix.MS_RDONLY),
		"read-only and there": sealed,
	} {
		t.Setenv("XDG_RUNTIME_DIR", folder)
		for command, args := range map[string][]string{
			"up":         {"up", "-n", "1"},
			"dispatcher": {"dispatcher"},
			"train":      {"train", "--workers", "1", "--data", text, "--steps", "1"},
			"run":        {"run", "-n", "1", "--", "true"},
		} {
			said := new(strings.Builder)
			root := NewRootCommand()
			root.SetArgs(args)
			root.SetErr(said)
			status := Main(t.Context(), root)
			if s := said.String(); status != 1 || !strings.Contains(s, folder+"/ringside") || !strings.Contains(s, "set XDG_RUNTIME_DIR to a directory of this user's own") {
				t.Errorf("%s, %s: %d, %s", name, command, status, s)
			}
			if (command == "up" || command == "dispatcher") && !strings.Contains(said.String(), "--listen FILE") {
				t.Errorf("%s, %s: %s, expected --listen", name, command, said)
			}
		}
		if f := (&host{runtimeDir: filepath.Join(folder, "ringside")}).runtimeFolder(t.Context()); f.Status != bad || !strings.Contains(f.Found, folder) || !strings.Contains(f.Do, "XDG_RUNTIME_DIR") {
			t.Errorf("%s: doctor says %+v", name, f)
		}
	}
}

// sameProcesses checks that the dispatcher at addr and its worker w0 are the processes
// that they were before.
func sameProcesses(t *testing.T, addr string, before client.Counters) {
	t.Helper()
	after, err := client.Status(t.Context(), nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []string{"pid", "worker.w0.pid"} {
		if before.Get(pid) != after.Get(pid) {
			t.Errorf("%s was %d, is %d", pid, before.Get(pid), after.Get(pid))
		}
	}
}
