package command

import (
	"context"
	"errors"
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

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// written returns what is in a file once it is there: the dispatcher names its file
// before it is written.
func written(t *testing.T, file string) (text []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(text) == 0 {
		var err error
		if text, err = os.ReadFile(file); err != nil && !errors.Is(err, os.ErrNotExist) || ctx.Err() != nil {
			t.Fatalf("%s is not written: %v", file, err)
		}
		runtime.Gosched()
	}
	return text
}

// TestFlightOfACluster kills a worker: the error of its client names a file with the
// dispatcher's last events, and one with the client's last batches.
func TestFlightOfACluster(t *testing.T) {
	dir := t.TempDir()
	flightOfACluster(t, dir, "--flight", dir)
}

// TestFlightInCache has the files in the user's cache. The command of docs/collectives.md
// lists them.
func TestFlightInCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("RINGSIDE_FLIGHT", "")
	flightOfACluster(t, collective.FlightFolder(""))
	const list = "ls ~/.cache/ringside/flight"
	if !strings.Contains(readText(t, filepath.Join(root, "docs/collectives.md")), "\n    "+list+"\n") {
		t.Errorf("docs/collectives.md does not have the command %q", list)
	}
	out, err := exec.Command("sh", "-c", list).CombinedOutput()
	if err != nil || len(strings.Fields(string(out))) != 2 {
		t.Errorf("%s: %v, expected a file of the dispatcher and one of the client\n%s", list, err, out)
	}
}

// flightOfACluster runs up with arguments by which the files are in a folder.
func flightOfACluster(t *testing.T, dir string, args ...string) {
	runtimeDir(t)
	up := startCmd(t, ringside(t, append([]string{"up", "-n", "1"}, args...)...))
	pid, err := strconv.Atoi(up.wait(`^worker w0: process (\d+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	addr := up.wait(`^ready at (\S+);`)[1]
	s, err := client.Open(t.Context(), &client.Options{Addr: addr, Flight: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if _, err := tensor.Ones(s, tensor.F32, 4).Sum().Item(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = tensor.Ones(s, tensor.F32, 4).Sum().Item()
	}
	if !errors.Is(err, client.ErrLost) {
		t.Fatal(err)
	}
	for what, says := range map[string][]string{
		`the dispatcher's last events are in (\S+\.txt)`: {"the last events of this dispatcher: process ", `failed at `, `worker \"w0\"`, "worker joined", "session placed"},
		`this client's last batches are in (\S+\.txt)`:   {"the last events of this client: process ", "session lost", "answered     run #", " of 2 operations, 1 values read\n"},
	} {
		m := regexp.MustCompile(what).FindStringSubmatch(err.Error())
		if m == nil {
			t.Fatalf("%v, expected %s", err, what)
		}
		text := written(t, m[1])
		if !strings.HasPrefix(m[1], dir) {
			t.Errorf("%s is not in %s", m[1], dir)
		}
		for _, want := range says {
			if !strings.Contains(string(text), want) && !strings.Contains(string(text), strings.ReplaceAll(want, `\`, "")) {
				t.Errorf("%s: no %q in\n%s", m[1], want, text)
			}
		}
	}
	_ = up.Process.Signal(os.Interrupt)
	up.wait("^ended$")
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}
