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
)

// childVariable has the JSON of a child's rank.
const childVariable = "RINGSIDE_TEST_GATHER"

func TestMain(m *testing.M) {
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
	Socket     string
	Dir        string
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
	group, err := collective.Init(ctx, &collective.Options{Timeout: 20 * time.Second, World: &rendezvous.Overrides{Rank: p.Rank, Size: p.Size, Socket: p.Socket}})
	if err != nil {
		return err
	}
	m := codectest.Tiny(codec.DefaultConfig())
	files, err := store.NewFile(filepath.Join(p.Dir, "store"))
	if err != nil {
		return err
	}
	var from store.Store = files
	if p.Victim {
		from = stuck{files}
	}
	g, err := gather.New(group, &gather.Options{Manifest: m, Spool: filepath.Join(p.Dir, "spool"), Elastic: p.Elastic, Fetch: store.FetchOptions{Attempts: 1},
		Source: func(_, uid uint64) (store.Store, string) { return from, key(uid) }})
	if err != nil {
		return err
	}
	plan := &gather.Plan{Window: window, Intended: uids(1, 10), Reserves: uids(11, 12), Timeout: time.Minute, Manifest: m.Digest(), Policy: gather.Policy{ReserveRounds: 1}}
	r, err := g.Gather(ctx, plan)
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

// processes starts ranks and returns what each of them printed last. The victim, if
// there is one, is killed when it fetches.
func processes(t *testing.T, dir string, size, victim int, elastic bool) []string {
	t.Helper()
	run, err := os.MkdirTemp("", "rs") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	var all []*exec.Cmd
	var outs []*bufio.Scanner
	for rank := range size {
		spec, err := json.Marshal(place{rank, size, filepath.Join(run, "s"), dir, rank == victim, elastic})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childVariable+"="+string(spec), "XDG_RUNTIME_DIR="+run)
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
	said := make([]string, size)
	for rank, s := range outs {
		for s.Scan() {
			said[rank] = s.Text()
		}
		all[rank].Wait()
	}
	return said
}

// onDisk puts the peers of the children's plan into a folder; the fourth is missing.
func onDisk(t *testing.T) string {
	dir := t.TempDir()
	s, err := store.NewFile(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	m := codectest.Tiny(codec.DefaultConfig())
	for _, uid := range uids(1, 12) {
		if b := codectest.Payload(m, window, uid, nil); uid != 4 {
			if err := s.Put(t.Context(), key(uid), strings.NewReader(string(b.Bytes())), b.Size(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestT2Processes: ranks that are processes come to the same bits, whatever their number.
func TestT2Processes(t *testing.T) {
	dir := onDisk(t)
	first := ""
	for _, size := range []int{1, 2, 4} {
		for rank, said := range processes(t, dir, size, -1, false) {
			if first == "" {
				first = said
			}
			if !strings.HasPrefix(said, "done ") || said != first {
				t.Errorf("rank %d of %d said\n%s\nexpected\n%s", rank, size, said, first)
			}
		}
	}
}

// TestT21Killed: one of four ranks is killed while it fetches. Where it is allowed the
// others fetch what it had and come to the result of three ranks from the start;
// otherwise all abort and name it.
func TestT21Killed(t *testing.T) {
	dir := onDisk(t)
	want := processes(t, dir, 3, -1, false)[0]
	for _, victim := range []int{0, 2} {
		for rank, said := range processes(t, dir, 4, victim, true) {
			if rank != victim && said != want {
				t.Errorf("elastic, rank %d of 4 without %d said\n%s\nexpected\n%s", rank, victim, said, want)
			}
		}
	}
	begin := time.Now()
	for rank, said := range processes(t, dir, 4, 1, false) {
		if rank != 1 && (!strings.HasPrefix(said, "error") || !strings.Contains(said, "aborted") || !strings.Contains(said, "rank 1")) {
			t.Errorf("strict, rank %d said %q, expected that it aborts for rank 1", rank, said)
		}
	}
	t.Logf("strict: all had aborted %v after they were started", time.Since(begin))
}
