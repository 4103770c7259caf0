package gather_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/net/nettest"
)

// childVariable has the JSON of a child's rank.
const childVariable = "RINGSIDE_TEST_GATHER"

func TestMain(m *testing.M) {
	os.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
	if spec := os.Getenv(childVariable); spec != "" {
		if err := rankProcess(spec); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// place is a rank in a process of its own.
type place struct {
	Rank, Size int
	Socket     string // of the rendezvous
	Apart      bool   // the ranks see each other by TCP alone, as on hosts of their own
	Spool      string
	URL        string // of the payloads
	Plan       gather.Plan
	Victim     bool // it stops in its first request, and is killed
	Elastic    bool
}

// stuck is a store whose objects never come.
type stuck struct{ store.Store }

func (s stuck) Open(context.Context, string, store.Get) (*store.Object, error) {
	fmt.Println("fetching")
	select {}
}

// rankProcess gathers and applies to a model of its own, and prints "done", the hash of
// the weights and the result.
func rankProcess(spec string) error {
	var p place
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		return err
	}
	ctx := context.Background()
	group, err := collective.Init(ctx, &collective.Options{Timeout: 20 * time.Second, Bind: "127.0.0.1",
		World: &rendezvous.Overrides{Rank: p.Rank, Size: p.Size, Socket: p.Socket, Secret: []byte("the secret of a test")}})
	if err != nil {
		return err
	}
	hosts := 1
	if p.Apart {
		hosts = p.Size
	}
	if n := len(group.Hosts()); n != hosts {
		return fmt.Errorf("the ranks are on %d hosts, expected %d", n, hosts)
	}
	m := codectest.Tiny(codec.DefaultConfig())
	var from store.Store
	if from, err = store.NewHTTP(p.URL, nil); err != nil {
		return err
	}
	if p.Victim {
		from = stuck{from}
	}
	g, err := gather.New(group, &gather.Options{Manifest: m, Spool: p.Spool, Elastic: p.Elastic, Fetch: store.FetchOptions{Attempts: 1},
		Source: func(_, uid uint64) (store.Store, string) { return from, key(uid) }})
	if err != nil {
		return err
	}
	r, err := g.Gather(ctx, &p.Plan)
	if err != nil {
		return err
	}
	defer r.Close()
	w := apply.NewMem(m)
	if _, err := apply.Update(ctx, g.Ranks, r, m, w, &apply.Options{Replicated: true}); err != nil {
		return err
	}
	b, err := r.JSON()
	if err != nil {
		return err
	}
	fmt.Println("done", hash(w), string(b))
	return g.Group.Close()
}

// processes runs the fixture on ranks that are processes like p, and returns the last
// line that each of them printed. The victim, if there is one, is killed when it fetches.
func (f *fixture) processes(t *testing.T, p place, victim int) []string {
	t.Helper()
	run, err := os.MkdirTemp("", "rs") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	p.Socket, p.Spool, p.URL, p.Plan = filepath.Join(run, "s"), t.TempDir(), f.url, f.plan
	var all []*exec.Cmd
	var outs []*bufio.Scanner
	for rank := range p.Size {
		p.Rank, p.Victim = rank, rank == victim
		spec, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		c, dir := exec.Command(os.Args[0]), run
		if p.Apart { // ranks that do not see each other's folder of sockets
			dir = "/dev/shm"
			c, err = nettest.Apart(t.Context(), os.Args[0])
			nettest.Need(t, os.Getenv, err)
		}
		c.Env = append(os.Environ(), childVariable+"="+string(spec), "XDG_RUNTIME_DIR="+dir)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill() })
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		all, outs = append(all, c), append(outs, s)
	}
	if victim >= 0 {
		outs[victim].Scan() // "fetching"
		all[victim].Process.Kill()
	}
	said := make([]string, p.Size)
	for rank, s := range outs {
		for s.Scan() {
			said[rank] = s.Text()
		}
		all[rank].Wait()
	}
	return said
}

// TestT2Processes: ranks that are processes come to the bits of one rank in this process,
// whatever their number, over shared memory and over TCP.
func TestT2Processes(t *testing.T) {
	f := faulty(t)
	one := f.run(t, 1)[0]
	if one.err != nil {
		t.Fatal(one.err)
	}
	want := "done " + one.weights + " " + one.json
	places := []place{{Size: 2}, {Size: 4, Apart: true}, {Size: 1}, {Size: 4}, {Size: 2, Apart: true}}
	if testing.Short() || raced {
		places = places[:2]
	}
	for _, p := range places {
		for rank, said := range f.processes(t, p, -1) {
			if said != want {
				t.Errorf("rank %d of %d, apart: %v, said\n%s\nexpected\n%s", rank, p.Size, p.Apart, said, want)
			}
		}
	}
}

// TestT21Killed: one of four ranks is killed while it fetches. Where it is allowed the
// others fetch what it had and come to the result of three ranks from the start;
// otherwise all abort and name it.
func TestT21Killed(t *testing.T) {
	f := faulty(t)
	want := f.processes(t, place{Size: 3, Elastic: true}, -1)[0]
	if !strings.HasPrefix(want, "done ") {
		t.Fatal(want)
	}
	for _, victim := range []int{0, 2} {
		for rank, said := range f.processes(t, place{Size: 4, Elastic: true}, victim) {
			if rank != victim && said != want {
				t.Errorf("elastic, rank %d of 4 without %d said\n%s\nexpected\n%s", rank, victim, said, want)
			}
		}
	}
	begin := time.Now()
	for rank, said := range f.processes(t, place{Size: 4}, 1) {
		if rank != 1 && (!strings.HasPrefix(said, "error") || !strings.Contains(said, "aborted") || !strings.Contains(said, "rank 1")) {
			t.Errorf("strict, rank %d said %q, expected that it aborts for rank 1", rank, said)
		}
	}
	t.Logf("strict: all had aborted %v after they were started", time.Since(begin))
}
