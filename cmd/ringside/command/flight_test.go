package command

import (
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	runtimeDir(t)
	dir := t.TempDir()
	up := startCmd(t, ringside(t, "up", "-n", "1", "--flight", dir))
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
