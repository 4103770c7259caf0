package apply_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
)

// nowhere is a model of zeros that keeps nothing.
type nowhere struct{}

func (nowhere) Read(_ *codec.Param, _, _, _ int, dst []float32) error { clear(dst); return nil }
func (nowhere) Write(*codec.Param, int, int, int, []float32) error    { return nil }

// memory returns a line of this process's memory, in bytes.
func memory(name string) (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte(name+":"))
	var kb int64
	_, err = fmt.Sscan(string(rest[:min(len(rest), 40)]), &kb)
	return kb << 10, err
}

// grow is the child of TestT13Memory: it prints by how many bytes an update made it grow.
func grow(dir string, peers int, budget int64) error {
	m := codectest.Mid()
	g, r, err := collect(m, nil, &codectest.Peers{M: m, Window: window}, dir, "", peers)
	if err != nil {
		return err
	}
	defer r.Close()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return err
	}
	before, err := memory("VmRSS")
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	begin := time.Now()
	stats, err := apply.Update(context.Background(), g.Ranks, r, m, nowhere{}, &apply.Options{Budget: budget})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := memory("VmHWM")
	fmt.Println(after-before, int64(float64(stats.Values)/took.Seconds()))
	return err
}

// TestT13Memory: an update takes its budget and at most 12 MiB, whatever the peers.
func TestT13Memory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: 256 payloads of 2.5 MiB are made and gathered nine times")
	}
	budgets, peers := []int64{64, 16, 4}, []int{8, 64, 256}
	for _, budget := range budgets {
		var least, most int64
		for i, n := range peers {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), fmt.Sprintf("%s=%s grow %d %d", childVariable, t.TempDir(), n, budget<<20))
			c.Stderr = os.Stderr
			out, err := c.Output()
			f := strings.Fields(string(out))
			if err != nil || len(f) != 2 {
				t.Fatalf("%v: %s", err, out)
			}
			grew, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("budget %d MiB, %d peers: %.1f MiB, %s values/s", budget, n, float64(grew)/(1<<20), f[1])
			if grew > (budget+12)<<20 {
				t.Errorf("budget %d MiB, %d peers: the process grew by %d bytes", budget, n, grew)
			}
			if least, most = min(least, grew), max(most, grew); i == 0 {
				least = grew
			}
		}
		if most-least > 2<<20 {
			t.Errorf("budget %d MiB: the growth differs by %d bytes between numbers of peers", budget, most-least)
		}
	}
}
