package command

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestInspect looks at a cluster in this process while a client is connected.
func TestInspect(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(t.Context(), &cluster.Options{InProcess: true, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e, err := client.Dial(t.Context(), c.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := tensor.Full(tensor.NewSession(e, nil), tensor.F32, 1, 8).Sum().Item(); err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, "inspect", "--connect", c.Addr(), "--json")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(out) {
		var m local.Mapping
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		kinds[m.Kind]++
		if m.PID != os.Getpid() || m.Unread != "" || m.Kind == local.MappedRings && len(m.Rings) != 2 {
			t.Errorf("%+v", m)
		}
	}
	if kinds[local.MappedRings] < 4 || kinds[local.MappedBells] < 3 || kinds[local.MappedSegment] < 1 {
		t.Errorf("found %v", kinds)
	}
	addr := busyCluster(t)
	out, _, err = execute(t, "inspect", "--connect", addr)
	if err != nil || !strings.Contains(out, ", summer: w0 and w1: shared memory\n") {
		t.Errorf("no path of the workers: %v in\n%.600s", err, out)
	}
	for start := time.Now(); ; runtime.Gosched() { // until a waiting process sleeps
		out, _, err = execute(t, "inspect", "--pid", strconv.Itoa(os.Getpid()))
		if err == nil && strings.Contains(out, "capacity 1048576") && strings.Contains(out, "asleep") {
			break
		}
		if err != nil || time.Since(start) > 30*time.Second {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if _, _, err := execute(t, "inspect", "--connect", dir+"/nobody"); err == nil || !strings.Contains(err.Error(), dir+"/nobody") {
		t.Errorf("without a dispatcher: %v", err)
	}
}
