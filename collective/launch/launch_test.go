package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// guard is when a test counts as hanging.
const guard = 2 * time.Minute

// TestMain makes the test binary a launcher when it is told to: one that is then killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "launch" {
		_, _ = Run(context.Background(), Options{Program: os.Args[2:], Ranks: 2, Environ: os.Environ(), Stdout: os.Stdout})
		return
	}
	os.Exit(m.Run())
}

// said collects what ranks write, and tells when something has come.
type said struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wake  chan struct{}
	write int
}

func newSaid() *said { return &said{wake: make(chan struct{}, 1)} }

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.b.Write(b)
	s.write++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// lines are sorted, for ranks write in any order.
func (s *said) lines() []string {
	out := strings.Split(strings.TrimSpace(s.String()), "\n")
	slices.Sort(out)
	return out
}

// await waits until n lines have come.
func (s *said) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(guard)
	for strings.Count(s.String(), "\n") < n {
		select {
		case <-s.wake:
		case <-late:
			t.Fatalf("waiting for %d lines, got %q", n, s.String())
		}
	}
}

// options run a shell script in a runtime folder of the test's own, which must be empty
// in the end.
func options(t *testing.T, ranks int, script string) (Options, *said) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "ringside", "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left in the runtime folder: %v, %v", left, err)
		}
		os.RemoveAll(dir)
	})
	out := newSaid()
	return Options{
		Program: []string{"/bin/sh", "-c", script}, Ranks: ranks, Environ: append(os.Environ(), "XDG_RUNTIME_DIR="+dir),
		Stdout: out, Stderr: out, Prefix: true,
	}, out
}

func run(t *testing.T, o Options) (*Summary, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	return Run(ctx, o)
}

func TestEnvironment(t *testing.T) {
	o, out := options(t, 3, `echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR \
		$TORCHELASTIC_RESTART_COUNT ${#RINGSIDE_SECRET} ${RINGSIDE_RENDEZVOUS%%/*} $X "$Y"; pwd; [ "$MASTER_PORT" -gt 0 ]`)
	o.Environ = append(o.Environ, "X=outer", "RINGSIDE_EPOCH=7")
	o.Env = []string{"X=1", "Y=a  b"}
	o.Dir = t.TempDir()
	sum, err := run(t, o)
	if err != nil || sum.ExitCode != 0 || sum.Ranks != 3 || sum.Hosts != 1 {
		t.Fatalf("%+v, %v: %s", sum, err, out)
	}
	var want []string
	for r := range 3 {
		want = append(want, fmt.Sprintf("[%d] %s", r, o.Dir), fmt.Sprintf("[%d] %d/3 %d/3 0/1 127.0.0.1 0 52 unix: 1 a  b", r, r, r))
	}
	slices.Sort(want)
	if got := out.lines(); !slices.Equal(got, want) {
		t.Errorf("%q\nexpected\n%q", got, want)
	}
}

// TestFailure: the first that fails ends the others, be they deaf to SIGTERM or
// grandchildren, and its status is the run's.
func TestFailure(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
		how    string
	}{
		"exit status":       {"exec sleep 1000", 7, "exit status 7"},
		"a child":           {"sleep 1000; true", 7, "exit status 7"},
		"deaf":              {"trap '' TERM; echo deaf; sleep 1000; sleep 1000", 7, "exit status 7"},
		"killed by itself":  {"exec sleep 1000", 137, "signal: killed"},
		"ends in good time": {"trap 'kill -9 $! 2>/dev/null; echo ended; exit 0' TERM; echo ready; sleep 1000 & wait", 7, "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			end := "exit 7"
			if c.code == 137 {
				end = "kill -9 $$"
			}
			// Rank 1 fails when the others have started, which they say by a file.
			dir := t.TempDir()
			o, out := options(t, 3, fmt.Sprintf(`cd %s
if [ $RANK != 1 ]; then touch $RANK; %s; fi
until [ -e 0 ] && [ -e 2 ]; do sleep 0.01; done; %s`, dir, c.script, end))
			o.Grace = 200 * time.Millisecond
			if name == "ends in good time" {
				o.Grace = guard
			}
			sum, err := run(t, o)
			var failed *RankError
			if !errors.As(err, &failed) || !errors.Is(err, ErrFailed) || failed.Rank != 1 || failed.Code != c.code || failed.How != c.how || failed.Host != Localhost {
				t.Fatalf("%v; expected rank 1: %s\n%s", err, c.how, out)
			}
			if sum.ExitCode != c.code || sum.Restarts != 0 || len(sum.Failures) != 1 {
				t.Errorf("%+v", sum)
			}
		})
	}
}

// saying is a writer of a log that calls itself for each record.
type saying func(record string)

func (f saying) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

// TestSlowToEnd: which ranks are waited for is said once, when others than the failed one
// take their time to end. Rank 0 ends when that was said.
func TestSlowToEnd(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, 2, fmt.Sprintf(`cd %s
if [ $RANK = 0 ]; then trap 'until [ -e said ]; do sleep 0.01; done; exit 0' TERM; touch started; while :; do sleep 0.01; done; fi
until [ -e started ]; do sleep 0.01; done; exit 7`, dir))
	o.Grace = guard
	var records []string
	o.Logger = slog.New(slog.NewTextHandler(saying(func(record string) {
		records = append(records, record)
		if err := os.WriteFile(filepath.Join(dir, "said"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}), nil))
	if _, err := run(t, o); !errors.Is(err, ErrFailed) {
		t.Fatalf("%v: %s", err, out)
	}
	if want := `msg="a rank failed, waiting for the others to end" failed=1 ranks=[0] "at most"=`; len(records) != 1 || !strings.Contains(records[0], want) {
		t.Errorf("%q, expected %q alone", records, want)
	}
}

func TestRestarts(t *testing.T) {
	o, out := options(t, 2, `echo $TORCHELASTIC_RESTART_COUNT $RINGSIDE_RENDEZVOUS | sed 's/ .*rank0-/ /'; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || [ $RANK = 0 ] || exit 3; [ $RANK = 0 ] || exit 0
		[ $TORCHELASTIC_RESTART_COUNT = 2 ] || sleep 1000`)
	o.Restarts = 2
	sum, err := run(t, o)
	if err != nil || sum.Restarts != 2 || sum.ExitCode != 0 || len(sum.Failures) != 2 {
		t.Fatalf("%+v, %v: %s", sum, err, out)
	}
	for _, line := range []string{"[1] 0 0", "[1] 1 1", "[0] 2 2", "[1] 2 2"} {
		if !slices.Contains(out.lines(), line) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
	o.Restarts = 1
	if sum, err = run(t, o); !errors.Is(err, ErrFailed) || sum.ExitCode != 3 || sum.Restarts != 1 {
		t.Errorf("with one restart: %+v, %v", sum, err)
	}
	b, err := json.Marshal(sum)
	if want := `"exit_code":3,"failures":[{"rank":1,"host":"localhost","exit_code":3,"how":"exit status 3"},`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v; expected %s", b, err, want)
	}
}

// begin is Run in a goroutine, and where its error comes.
func begin(ctx context.Context, o Options) <-chan error {
	over := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o)
		over <- err
	}()
	return over
}

// TestInterrupt: the end of the context ends all ranks.
func TestInterrupt(t *testing.T) {
	// It ends its child itself: a signal that comes while the child is still the shell
	// may be lost.
	o, out := options(t, 2, `trap 'kill -9 $! 2>/dev/null; echo bye; exit 0' TERM; echo ready; sleep 1000 & wait`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := begin(ctx, o)
	out.await(t, 2)
	cancel()
	select {
	case err := <-over:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, expected the context's error", err)
		}
	case <-time.After(guard):
		t.Fatal("still running")
	}
	if want := []string{"[0] bye", "[0] ready", "[1] bye", "[1] ready"}; !slices.Equal(out.lines(), want) {
		t.Errorf("%q, expected %q", out.lines(), want)
	}
}

// TestLauncherKilled: the ranks of a launcher that is killed don't outlive it, nor does
// what they started, and its folder lasts until the next one comes.
func TestLauncherKilled(t *testing.T) {
	for name, script := range map[string]string{"ranks": "echo $$; exec sleep 1000", "what they started": "sleep 1000 & echo $!; wait"} {
		t.Run(name, func(t *testing.T) { launcherKilled(t, script) })
	}
}

// launcherKilled kills the launcher of two ranks whose script says which process becomes
// a sleep that is to end.
func launcherKilled(t *testing.T, script string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	folders := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "ringside", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	next := func() {
		o, out := options(t, 1, "exit 0")
		o.Environ = append(o.Environ, "XDG_RUNTIME_DIR="+dir)
		if _, err := run(t, o); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	cmd := exec.Command(exe, "launch", "/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	out := newSaid()
	cmd.Stdout = out
	cmd.WaitDelay = guard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, 2)
	next()
	if got := folders(); len(got) != 1 {
		t.Errorf("beside a launcher that runs another left %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	next()
	if got := folders(); len(got) != 0 {
		t.Errorf("%q are left of a launcher that was killed", got)
	}
	for _, line := range out.lines() {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("%q is no process", line)
		}
		for late := time.Now().Add(guard); ; {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || bytes.Contains(stat, []byte(") Z ")) || !bytes.Contains(stat, []byte("(sleep)")) {
				break
			}
			if time.Now().After(late) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("process %d is still there: %s", pid, stat)
			}
		}
	}
}

// TestLines: lines of several ranks are whole, whatever is in them.
func TestLines(t *testing.T) {
	o, out := options(t, 4, `for i in 1 2 3 4 5 6 7 8 9 10; do printf "a%s"; sleep 0.001; printf 'b\n'; done; printf end`)
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, l := range out.lines() {
		count[l]++
	}
	for r := range 4 {
		if p := fmt.Sprintf("[%d] ", r); count[p+"ab"] != 10 || count[p+"end"] != 1 {
			t.Errorf("rank %d: %v", r, count)
		}
	}
	if len(count) != 8 {
		t.Errorf("%d different lines: %v", len(count), count)
	}
	long := newSaid()
	l := &lines{mu: new(sync.Mutex), to: long, prefix: "> "}
	_, _ = l.Write(bytes.Repeat([]byte("x"), maxLine))
	_, _ = l.Write([]byte("y\n\nz"))
	l.close()
	if want := "> " + strings.Repeat("x", maxLine) + "\n> y\n> \n> z\n"; long.String() != want {
		t.Errorf("a long line became %d bytes, expected %d", len(long.String()), len(want))
	}
}

// shell is a remote shell for tests: it leaves out the host and has /bin/sh run the
// command, as sshd would.
func shell(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexport ON_HOST=$2; shift 2; exec /bin/sh -c \"$*\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path, "-q"}
}

func TestHosts(t *testing.T) {
	o, out := options(t, 0, `echo $ON_HOST $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR ${RINGSIDE_RENDEZVOUS-none} "$X"; [ $MASTER_PORT -gt 0 ]`)
	o.RemoteShell = shell(t)
	o.Hosts = []Host{{"a", 2}, {"b", 1}}
	o.Env = []string{"X=it's $HOME \"and\" `so`"}
	sum, err := run(t, o)
	if err != nil || sum.Hosts != 2 || sum.Ranks != 3 {
		t.Fatalf("%+v, %v: %s", sum, err, out)
	}
	x := " a none it's $HOME \"and\" `so`"
	want := []string{"[0] a 0/3 0/2 0/2" + x, "[1] a 1/3 1/2 0/2" + x, "[2] b 2/3 0/1 1/2" + x}
	if got := out.lines(); !slices.Equal(got, want) {
		t.Errorf("%q\nexpected\n%q", got, want)
	}
}

// TestFetchSeconds: the time to fetch the events of other hosts is apart from the run's,
// which is over when the fetching begins.
func TestFetchSeconds(t *testing.T) {
	o, out := options(t, 0, `mkdir "$RINGSIDE_EVENTS" && echo >"$RINGSIDE_EVENTS/0.events"`)
	dir := t.TempDir()
	o.Events, o.Hosts = t.TempDir(), []Host{{"a", 1}}
	fetched := filepath.Join(dir, "fetched")
	o.RemoteShell = []string{filepath.Join(dir, "rsh")}
	script := "#!/bin/sh\nshift; case $* in *tar*) date +%s%N >" + fetched + ";; esac; exec /bin/sh -c \"$*\"\n"
	if err := os.WriteFile(o.RemoteShell[0], []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sum, err := run(t, o)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(fetched)
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if before := time.Unix(0, at).Sub(began).Seconds(); sum.Seconds > before || sum.FetchSeconds <= 0 {
		t.Errorf("%g s and %g s to fetch, which began after %g s", sum.Seconds, sum.FetchSeconds, before)
	}
	if _, err := os.Stat(filepath.Join(EventsOf(o.Events, o.Hosts, 0), "0.events")); err != nil {
		t.Error(err)
	}
	o, _ = options(t, 1, "true")
	if sum, err := run(t, o); err != nil || sum.FetchSeconds != 0 {
		t.Errorf("without events: %+v, %v", sum, err)
	}
}

// TestHostsFailure: a failure on one host ends the ranks of the others, with what they
// started.
func TestHostsFailure(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, 0, fmt.Sprintf(`cd %s; if [ $RANK = 0 ]; then sh -c 'echo $$ >pid; mv pid left; sleep 1000; true'; exit 0; fi
		until [ -e left ]; do sleep 0.01; done; exit 5`, dir))
	o.RemoteShell = shell(t)
	o.Hosts = []Host{{"a", 1}, {"b", 1}}
	_, err := run(t, o)
	var failed *RankError
	if !errors.As(err, &failed) || failed.Rank != 1 || failed.Host != "b" || failed.Code != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	gone(t, filepath.Join(dir, "left"))
}

// gone waits until the process has ended whose number is in a file.
func gone(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid == 0 {
		t.Fatal(err, string(b))
	}
	for late := time.Now().Add(guard); syscall.Kill(pid, 0) == nil; {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			break // it is not reaped here
		}
		if time.Now().After(late) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d, which a rank left behind, is still there", pid)
		}
	}
}

// TestLeftBehind: what a rank leaves behind in its group ends with it, however it ends,
// here and on other hosts.
func TestLeftBehind(t *testing.T) {
	for name, end := range map[string]string{"well": "exit 0", "badly": "exit 7", "when asked": "trap 'exit 0' TERM; wait"} {
		for where, hosts := range map[string][]Host{"here": nil, "elsewhere": {{"a", 1}}} {
			t.Run(name+" "+where, func(t *testing.T) {
				dir := t.TempDir()
				o, out := options(t, 1, fmt.Sprintf(`cd %s; sh -c 'trap "" TERM; echo $$ >pid; mv pid left; exec sleep 1000' >/dev/null 2>&1 &
					until [ -e left ]; do sleep 0.01; done; echo started; %s`, dir, end))
				// elsewhere it is counted in seconds
				o.RemoteShell, o.Hosts, o.Grace = shell(t), hosts, time.Second
				ctx, cancel := context.WithTimeout(t.Context(), guard)
				defer cancel()
				over := begin(ctx, o)
				out.await(t, 1)
				var want error
				switch name {
				case "badly":
					want = ErrFailed
				case "when asked":
					want = context.Canceled
					cancel()
				}
				if err := <-over; !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%v, expected %v", err, want)
				}
				gone(t, filepath.Join(dir, "left"))
			})
		}
	}
}

// TestLeftBehindHasTime: what a rank leaves behind that ends by itself when asked has the
// time for it, and is asked once.
func TestLeftBehindHasTime(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, 1, fmt.Sprintf(`cd %s; sh -c 'trap "echo asked >>saved" TERM; echo started; exec >/dev/null; until [ -e saved ]; do sleep 0.01; done
		sleep 0.1; echo done >>saved' 2>/dev/null & wait; exit 1`, dir))
	o.Grace = guard
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := begin(ctx, o)
	out.await(t, 1)
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected the context's error", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "saved")); err != nil || string(b) != "asked\ndone\n" {
		t.Errorf("saved: %q, %v", b, err)
	}
}

func TestParseHosts(t *testing.T) {
	got, err := ParseHosts("a:2,b,[fe80::1]:3,10.0.0.1:1,[::1]")
	if want := []Host{{"a", 2}, {"b", 1}, {"fe80::1", 3}, {"10.0.0.1", 1}, {"::1", 1}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; expected %v", got, err, want)
	}
	for _, bad := range []string{"", "a:", "a:0", "a:-1", "a:x", ":2", "a,,b", "a,a", "-oProxyCommand=x", "fe80::1:2", "a b", "[a"} {
		if got, err := ParseHosts(bad); !errors.Is(err, ErrOption) {
			t.Errorf("%q: %v, %v; expected ErrOption", bad, got, err)
		}
	}
}

func TestOptions(t *testing.T) {
	base := func() Options { return Options{Program: []string{"x"}, Ranks: 1} }
	for name, with := range map[string]func(o *Options){
		"no program":       func(o *Options) { o.Program = nil },
		"0 ranks":          func(o *Options) { o.Ranks = 0 },
		"room for 2":       func(o *Options) { o.Ranks, o.Hosts = 3, []Host{{"a", 2}} },
		"variable \"A\"":   func(o *Options) { o.Env = []string{"A"} },
		"variable \"A;=\"": func(o *Options) { o.Env = []string{"A;="} },
		"-1 restarts":      func(o *Options) { o.Restarts = -1 },
		"grace of -1s":     func(o *Options) { o.Grace = -time.Second },
		"port 65536":       func(o *Options) { o.MasterPort = 65536 },
		"remote shell":     func(o *Options) { o.RemoteShell = []string{} },
	} {
		o := base()
		with(&o)
		if sum, err := Run(t.Context(), o); sum != nil || !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v, %v; expected ErrOption with %q", sum, err, name)
		}
	}
	o, _ := options(t, 1, "")
	dir := filepath.Join(lookup(o.Environ, "XDG_RUNTIME_DIR"), strings.Repeat("x", 90))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o.Environ = append(o.Environ, "XDG_RUNTIME_DIR="+dir)
	if sum, err := Run(t.Context(), o); sum != nil || err == nil || !strings.Contains(err.Error(), "choose a shorter XDG_RUNTIME_DIR") {
		t.Errorf("%+v, %v; expected a socket's path that is too long", sum, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "ringside")); err != nil || len(left) > 0 {
		t.Errorf("left in the runtime folder: %v, %v", left, err)
	}
	o, _ = options(t, 2, "")
	o.Program = []string{"/does/not/exist"}
	if sum, err := run(t, o); sum == nil || sum.ExitCode == 0 || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "rank 0 on localhost") {
		t.Errorf("%+v, %v", sum, err)
	}
}
