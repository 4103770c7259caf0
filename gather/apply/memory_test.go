package apply_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
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

// processorTime returns what this process has used.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// grow is the child of TestT13Memory and TestT27Scale: it prints by how many bytes an
// update made it grow, how many values it added a second of processor time, and how
// large it was at most while it gathered. Updates lie in bucket at endpoint, or nowhere:
// they are made when they are asked for.
func grow(dir string, peers int, budget int64, endpoint, access, secret string) error {
	m := codectest.Mid()
	var from store.Store = &codectest.Peers{M: m, Window: window}
	if endpoint != "" {
		var err error
		if from, err = store.NewS3(bucket, "", &store.S3Options{Endpoint: endpoint, AccessKey: access, SecretKey: secret, Plain: true}); err != nil {
			return err
		}
	}
	g, r, err := collect(m, nil, from, dir, "", peers, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if len(r.UIDs) != peers {
		return fmt.Errorf("%d of %d peers: %v", len(r.UIDs), peers, r.Details)
	}
	gathered, err := memory("VmHWM")
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return err
	}
	before, err := memory("VmRSS")
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	begin, err := processorTime() // others may use the cores too
	if err != nil {
		return err
	}
	stats, err := apply.Update(context.Background(), g.Ranks, r, m, nowhere{}, &apply.Options{Budget: budget})
	if err != nil {
		return err
	}
	end, err := processorTime()
	if err != nil {
		return err
	}
	took := end - begin
	after, err := memory("VmHWM")
	fmt.Println(after-before, int64(float64(stats.Values)/took.Seconds()), gathered)
	return err
}

// TestT13Memory: an update takes its budget and at most 12 MiB, whatever the peers.
func TestT13Memory(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("it takes a minute, and its figure is that of a program without the race detector")
	}
	budgets, peers := []int64{64, 16, 4}, []int{8, 64, 256}
	for _, budget := range budgets {
		// The growth of a process depends on when its collector last ran, too: a
		// dependence on the peers would show in each of three tries.
		differs := int64(math.MaxInt64)
		for try := 0; try < 3 && differs > 2<<20; try++ {
			var all []int64
			for _, n := range peers {
				grew, speed, _ := growth(t, n, budget<<20, "")
				t.Logf("budget %d MiB, %d peers: %.1f MiB, %d values/s", budget, n, float64(grew)/(1<<20), speed)
				if grew > (budget+12)<<20 {
					t.Errorf("budget %d MiB, %d peers: the process grew by %d bytes", budget, n, grew)
				}
				all = append(all, grew)
			}
			differs = slices.Max(all) - slices.Min(all)
		}
		if differs > 2<<20 {
			t.Errorf("budget %d MiB: the growth differs by %d bytes between numbers of peers", budget, differs)
		}
	}
}

// growth runs grow in a process of its own. s3 is what comes behind the budget.
func growth(t *testing.T, peers int, budget int64, s3 string) (grew, speed, gathered int64) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s grow %d %d %s", childVariable, t.TempDir(), peers, budget, s3))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := fmt.Sscan(string(out), &grew, &speed, &gathered); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return grew, speed, gathered
}

const bucket = "mid"

// TestT27Scale gathers and applies 256 payloads of 2.5 MiB from the real S3 gateway.
func TestT27Scale(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("it puts 256 payloads of 2.5 MiB into the gateway")
	}
	const budget = 16 << 20
	g := storetest.StartGateway(t, os.Getenv)
	s := g.Bucket(t, bucket)
	m := codectest.Mid()
	for uid := uint64(1); uid <= 256; uid++ {
		p := codectest.Random(m, window, uid)
		if err := s.Put(t.Context(), fmt.Sprint(uid), bytes.NewReader(p.Bytes()), p.Size(), nil); err != nil {
			t.Fatal(err)
		}
	}
	key, secret := g.Keys()
	begin := time.Now()
	grew, speed, gathered := growth(t, 256, budget, g.Endpoint+" "+key+" "+secret)
	t.Logf("%v in all; %d values/s; %.1f MiB while it gathered, %.1f MiB for the update", time.Since(begin), speed, float64(gathered)/(1<<20), float64(grew)/(1<<20))
	if most := int64(64<<20 + budget); gathered > most || grew > budget+12<<20 {
		t.Errorf("the process had %d bytes and grew by %d, expected at most %d and %d", gathered, grew, most, budget+12<<20)
	}
}
