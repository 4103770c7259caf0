package cluster_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// startKinds starts workers on devices of those descriptions: w0 on the first, and so on.
func startKinds(t *testing.T, infos ...device.Info) *cluster.Cluster {
	t.Helper()
	return start(t, cluster.Options{InProcess: true, Workers: len(infos),
		Dispatcher: &dispatcher.Options{WorkerWait: 200 * time.Millisecond},
		Worker: func(name string) (*worker.Options, error) {
			info := infos[name[1]-'0']
			o := cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20, Checked: true, Segment: segments("")}}
			dev, err := apart.New(&apart.Options{Seed: 1, CPU: o, Kind: info.Kind, Flops: info.Flops, Bandwidth: info.Bandwidth})
			return &worker.Options{Name: name, Device: dev}, err
		}})
}

// namesOf returns the names of the workers of a session, which it opens, uses and closes.
func namesOf(t *testing.T, c *cluster.Cluster, o client.Options) []string {
	t.Helper()
	e, err := client.Dial(testContext(t), c.Addr(), &o)
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	if v, err := tensor.From(s, []float32{1, 2, 3}).MulS(2).Sum().Item(); err != nil || v != 12 {
		t.Errorf("a sum on %s is %v, %v", e.Name(), v, err)
	}
	names := regexp.MustCompile(`w\d \(pid`).FindAllString(e.Name(), -1)
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], " (pid")
	}
	return names
}

// TestKinds has workers on slow cores and on fast devices of another kind. A session gets
// the fastest kind that has enough workers, and the faster worker of a kind; it has the
// kind that it names, and several kinds only if it says so.
func TestKinds(t *testing.T) {
	c := startKinds(t, device.Info{Kind: device.CPU, Flops: 1e10}, device.Info{Kind: device.CPU, Flops: 2e10},
		device.Info{Kind: device.CUDA, Flops: 1e13}, device.Info{Kind: device.CUDA, Flops: 5e13}, device.Info{Kind: device.CPU, Flops: 1e9})
	for _, x := range []struct {
		what string
		o    client.Options
		want []string
	}{
		{"all, of several kinds", client.Options{Workers: 5, MixKinds: true}, []string{"w0", "w1", "w2", "w3", "w4"}},
		{"one", client.Options{}, []string{"w3"}},
		{"two", client.Options{Workers: 2}, []string{"w2", "w3"}},
		{"three, which only cores are", client.Options{Workers: 3}, []string{"w0", "w1", "w4"}},
		{"one of cores", client.Options{Kind: device.CPU}, []string{"w1"}},
		{"two of cores", client.Options{Kind: device.CPU, Workers: 2}, []string{"w0", "w1"}},
		{"one of CUDA", client.Options{Kind: device.CUDA}, []string{"w3"}},
	} {
		if got := namesOf(t, c, x.o); !slices.Equal(got, x.want) {
			t.Errorf("%s: a session on %v, expected %v", x.what, got, x.want)
		}
	}
	for what, o := range map[string]client.Options{"four of one kind": {Workers: 4}, "three of CUDA": {Workers: 3, Kind: device.CUDA}} {
		if e, err := client.Dial(testContext(t), c.Addr(), &o); !errors.Is(err, client.ErrNoWorker) {
			t.Errorf("%s: %v, %v; expected ErrNoWorker", what, e, err)
		}
	}
}

// TestAutoShardByDevice has the same program run on slow devices and on fast ones. Work
// on slow ones is worth cutting; on fast ones a collective would take longer than it
// saves. Of unequal devices the slowest is the one to wait for.
func TestAutoShardByDevice(t *testing.T) {
	const slow, fast = 1e10, 1e15
	for what, x := range map[string]struct {
		flops [2]float64
		cuts  bool
	}{
		"not known": {[2]float64{0, 0}, true}, "slow": {[2]float64{slow, slow}, true},
		"fast": {[2]float64{fast, fast}, false}, "unequal": {[2]float64{fast, slow}, true},
	} {
		t.Run(what, func(t *testing.T) {
			c := startKinds(t, device.Info{Flops: x.flops[0], Bandwidth: 12 * x.flops[0] / 50}, device.Info{Flops: x.flops[1], Bandwidth: 12 * x.flops[1] / 50})
			e := dial(t, c, &client.Options{Config: &config.Config{NumWorkers: 2, AutoShard: true}})
			s := tensor.NewSession(e, nil)
			a, w := tensor.From(s, numbers(301*300, 1), 301, 300), tensor.From(s, numbers(300*300, 2), 300, 300)
			if _, err := tensor.Data[float32](a.Matmul(w).ReLU().Matmul(w).Sum(0)); err != nil {
				t.Fatal(err)
			}
			if st := e.Stats(); st.Calls > 0 != x.cuts {
				t.Errorf("%d collectives, expected some: %v", st.Calls, x.cuts)
			}
		})
	}
}
