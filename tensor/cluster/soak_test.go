package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

var soakMinutes = flag.Float64("soak.minutes", 0, "how long clients come and go in TestSoak; 0: a few do")

const (
	soakWorkers = 2
	soakSteps   = 20

	// soakCrowd is how many clients are there at once in the beginning, more than ever
	// after. Go's runtime keeps what goroutines and threads need, as many as there ever
	// were: the first figures have it.
	soakCrowd = 24

	// soakWarm is when the long test takes its first figures, at most: by then caches
	// are full.
	soakWarm = 2 * time.Minute

	// soakIdle is longer than workers keep memory that no session uses.
	soakIdle = 15 * time.Second

	// soakGrowth is what a figure may be at the end, of what it was. In the short test
	// soakSlack more is no growth either: a worker may have a segment that is given back
	// later.
	soakGrowth, soakSlack = 1.05, 4
)

// TestSoak has clients of all kinds come and go: near and far, of one worker and of two,
// with small and with large tensors, closed and killed. The dispatcher and the workers
// have at the end what they had when their caches were full: memory, descriptors,
// goroutines and mappings. Without -soak.minutes it compares after few clients, and
// leaves out the memory and the mappings of Go's runtime.
func TestSoak(t *testing.T) {
	if testsize.Raced && *soakMinutes == 0 {
		t.Skip("it counts what processes hold, which is the same without the race detector")
	}
	s := &soak{chaos: &chaos{T: t, sockets: socketDir(t), errors: map[string]int{}, kills: map[string]int{}},
		far: filepath.Join(t.TempDir(), "far"), first: map[string][]float64{}}
	s.addr = filepath.Join(s.sockets, "d")
	s.ctx, s.cancel = context.WithCancel(context.Background())
	defer func() {
		s.calm.Store(true)
		s.cancel()
		s.running.Wait()
	}()
	s.watched("dispatcher", "linked", s.addr, s.far, anyPort)
	for i := range soakWorkers {
		s.watched("worker", "worker", "--connect", s.addr, "--name", fmt.Sprint("w", i), "")
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)

	long := time.Duration(*soakMinutes * float64(time.Minute))
	warm := min(soakWarm, long/2)
	enough := [2]int64{30, 60}
	if testing.Short() {
		enough = [2]int64{8, 16}
	}
	began := time.Now()
	s.crowd(soakCrowd)
	s.comeAndGo(seed, func(gone int64) bool { return time.Since(began) >= warm && gone >= enough[0] })
	before := s.figures(long > 0, nil)
	at := time.Since(began)
	s.comeAndGo(seed+1, func(gone int64) bool { return time.Since(began) >= long && gone >= enough[1] })
	after := s.figures(long > 0, before)
	t.Logf("%d sessions of clients here, %d processes of clients killed, in %v", s.sessions.Load(), s.killed.Load(), time.Since(began).Round(time.Second))
	s.compare(before, after, at, time.Since(began), long > 0)
}

// kinds are those of clients of TestSoak.
var kinds = []string{"near", "two", "far", "large"}

// soak is the state of TestSoak.
type soak struct {
	*chaos
	far    string // the file with the dispatcher's address for other hosts
	parts  []soakPart
	killed atomic.Int64

	fmu   sync.Mutex
	first map[string][]float64 // the losses of the first session of each kind
}

// soakPart is the dispatcher or a worker.
type soakPart struct {
	name string
	file string // where it writes its number of goroutines and the size of its heap
	post *post
}

// figures of a process.
type figures struct {
	descriptors, goroutines int
	shared                  int // mappings of memory that others have, too
	mappings                int // all; the runtime's come with threads and large heaps
	heap, objects           int // bytes in use of Go's heap, and objects
	resident                int // KiB
	kinds                   [len(soakKinds)]int
}

// soakKinds are what of the memory is printed and not compared: the resident KiB by kind
// of mapping, and of those without a file the part that Go's runtime accounts for.
var soakKinds = [...]string{"of files", "shared", "without a file", "heap in use", "heap idle", "stacks", "runtime's own"}

// childWatched is another child that collects its garbage and writes its number of
// goroutines and the size of its heap to a file, whenever it gets SIGUSR1.
func childWatched(ctx context.Context, args []string) error { // FILE CHILD ARGS...
	// The linker leaves the profile of allocations out of ringside, not of a test. Its
	// table grows with each new stack.
	runtime.MemProfileRate = 0
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			debug.FreeOSMemory()
			debug.FreeOSMemory() // what the first collection's cleanups let go of
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			_ = os.WriteFile(args[0]+".new", fmt.Append(nil, runtime.NumGoroutine(), " ", m.HeapAlloc, " ", m.HeapInuse>>10,
				" ", (m.HeapIdle-m.HeapReleased)>>10, " ", m.StackSys>>10, " ", (m.MSpanSys+m.MCacheSys+m.BuckHashSys+m.GCSys+m.OtherSys)>>10, " ", m.HeapObjects), 0o600)
			_ = os.Rename(args[0]+".new", args[0])
		}
	}()
	if err := os.WriteFile(args[0], nil, 0o600); err != nil {
		return err
	}
	return child(ctx, args[1], args[2:])
}

// watched employs a child whose figures are compared.
func (s *soak) watched(role string, args ...string) {
	p := soakPart{name: fmt.Sprint(role, " ", len(s.parts)), file: filepath.Join(s.T.TempDir(), "goroutines")}
	s.employ(role, append([]string{"watched", p.file}, args...)...)
	p.post = s.posts[len(s.posts)-1]
	s.parts = append(s.parts, p)
}

// comeAndGo has clients come and go until enough are gone.
func (s *soak) comeAndGo(seed uint64, enough func(gone int64) bool) {
	var gone atomic.Int64
	var running sync.WaitGroup
	for i := range uint64(4) {
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			for n := i; !s.Failed() && !enough(gone.Load()); n++ {
				if err := s.visit(r, kinds[n%uint64(len(kinds))]); err != nil {
					s.Errorf("a client: %v", err)
				}
				gone.Add(1)
			}
		})
	}
	running.Go(func() {
		r := rand.New(rand.NewPCG(seed, 4))
		for !s.Failed() && !enough(gone.Load()) {
			p := run(s, "client", s.addr, "")
			for range 1 + r.IntN(20) {
				if _, err := p.out.ReadString('\n'); err != nil {
					s.Errorf("a client that is to be killed: %v", err)
				}
			}
			_ = p.Process.Kill()
			_ = p.Wait()
			s.killed.Add(1)
		}
	})
	running.Wait()
}

// crowd has n clients of all kinds be there at one time, with sessions that are open.
func (s *soak) crowd(n int) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, patience, errors.New("it hangs"))
	defer cancel()
	var there, running sync.WaitGroup
	there.Add(n)
	for i := range n {
		running.Go(func() {
			done := sync.OnceFunc(there.Done)
			defer done()
			if err := s.open(ctx, kinds[i%len(kinds)], func(session *tensor.Session) error {
				_, err := tensor.Ones(session, tensor.F32, 100).Sum().Item()
				done()
				there.Wait()
				return err
			}); err != nil {
				s.Errorf("a client of many: %v", err)
			}
		})
	}
	running.Wait()
}

// open opens a session of a kind of clients and closes it behind use.
func (s *soak) open(ctx context.Context, kind string, use func(*tensor.Session) error) error {
	addr, o := s.addr, client.Options{}
	switch kind {
	case "far":
		at, err := os.ReadFile(s.far)
		if err != nil {
			return err
		}
		addr, o.Secret = string(at), []byte(farSecret)
	case "two":
		o.Workers = 2
	}
	e, err := client.Dial(ctx, addr, &o)
	if err != nil {
		return err
	}
	defer e.Close()
	s.sessions.Add(1)
	return use(tensor.NewSession(e, &tensor.SessionOptions{Context: ctx}))
}

// visit is one client: it opens a session, computes, and goes. The losses are those of
// the first client of its kind, to the bit.
func (s *soak) visit(r *rand.Rand, kind string) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, patience, errors.New("it hangs"))
	defer cancel()
	return s.open(ctx, kind, func(session *tensor.Session) error { return s.compute(session, r, kind) })
}

// compute is what a client does.
func (s *soak) compute(session *tensor.Session, r *rand.Rand, kind string) error {
	if kind == "large" {
		x := tensor.Full(session, tensor.F32, 1, 4<<20).AddS(float64(r.IntN(3)))
		sum, err := x.Sum().Item()
		if err == nil && (sum < 4<<20 || sum > 12<<20) {
			err = fmt.Errorf("the sum is %v", sum)
		}
		return err
	}
	losses, err := newModel(session).train(soakSteps)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	s.fmu.Lock()
	defer s.fmu.Unlock()
	if s.first[kind] == nil {
		s.first[kind] = losses
	}
	if !slices.Equal(losses, s.first[kind]) {
		return fmt.Errorf("%s: losses %v, the first client's %v", kind, losses, s.first[kind])
	}
	return nil
}

// figures are taken when no client is left, and memory that is kept for a while was given
// back. Figures that are no more than before are taken at once.
func (s *soak) figures(long bool, before []figures) []figures {
	ctx, cancel := context.WithTimeoutCause(s.ctx, patience, errors.New("sessions are left"))
	defer cancel()
	for {
		st, err := client.Status(ctx, nil, s.addr)
		if err != nil {
			s.Fatal(err)
		}
		if st.Get(metrics.Sessions) == 0 && st.Get(metrics.Clients) == 0 && st.Get(metrics.Workers) == soakWorkers {
			break
		}
	}
	if long {
		<-time.After(soakIdle)
	}
	all := s.read()
	for same := 0; same < 5 && ctx.Err() == nil && s.grown(before, all, long) != nil; same++ {
		next := s.read()
		if !slices.EqualFunc(next, all, figures.same) {
			same = 0
		}
		all = next
	}
	return all
}

// read takes the figures of all parts.
func (s *soak) read() (all []figures) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for _, p := range s.parts {
		if err := os.WriteFile(p.file, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		pid := int(p.post.pid.Load())
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			s.Fatalf("%s: %v", p.name, err)
		}
		var f figures
		for f.goroutines == 0 {
			text, err := os.ReadFile(p.file)
			if err != nil || ctx.Err() != nil {
				s.Fatalf("%s does not count its goroutines: %v, %v", p.name, err, ctx.Err())
			}
			_, _ = fmt.Sscan(string(text), &f.goroutines, &f.heap, &f.kinds[3], &f.kinds[4], &f.kinds[5], &f.kinds[6], &f.objects)
			<-time.After(time.Millisecond)
		}
		f.descriptors = s.files(p.post)
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			s.Fatal(err)
		}
		f.mappings, f.shared = bytes.Count(maps, []byte("\n")), bytes.Count(maps, []byte("s "))
		f.resident = limitstest.Resident(s, pid) >> 10
		s.residents(pid, &f)
		all = append(all, f)
	}
	return all
}

// residents takes from the kernel of which kinds of mappings the resident KiB are.
func (s *soak) residents(pid int, f *figures) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		s.Fatal(err)
	}
	kind := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch first := fields[0]; {
		case first == "Rss:":
			n, _ := strconv.Atoi(fields[1])
			f.kinds[kind] += n
		case strings.HasSuffix(first, ":"): // another figure of the mapping
		case strings.HasSuffix(fields[1], "s"): // 7f0c1c000000-7f0c1d000000 rw-s ...
			kind = 1
		case len(fields) > 5 && strings.HasPrefix(fields[5], "/"):
			kind = 0
		default:
			kind = 2
		}
	}
}

// same reports whether the figures that are compared are the same.
func (f figures) same(g figures) bool {
	f.kinds, f.objects = g.kinds, g.objects
	return f == g
}

// list returns the figures that are compared, with their names.
func (f figures) list(long bool) (names []string, values []int) {
	names, values = []string{"descriptors", "goroutines", "shared mappings"}, []int{f.descriptors, f.goroutines, f.shared}
	if long {
		names, values = append(names, "bytes of the heap", "mappings", "resident KiB"), append(values, f.heap, f.mappings, f.resident)
	}
	return names, values
}

// grown returns the names of figures that are too much more than before.
func (s *soak) grown(before, after []figures, long bool) (grown []string) {
	if before == nil {
		return []string{"nothing to compare with"}
	}
	for i, p := range s.parts {
		names, was := before[i].list(long)
		_, is := after[i].list(long)
		for k := range names {
			if float64(is[k]) > soakGrowth*float64(was[k]) && (long || is[k] > was[k]+soakSlack) {
				grown = append(grown, fmt.Sprintf("%s: %d %s, %d before", p.name, is[k], names[k], was[k]))
			}
		}
	}
	return grown
}

// compare prints the figures as a table, and complains of those that have grown.
func (s *soak) compare(before, after []figures, at, end time.Duration, long bool) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "process\tfigure\tat %v\tat %v\tratio\t\n", at.Round(time.Second), end.Round(time.Second))
	for i, p := range s.parts {
		names, was := before[i].list(long)
		_, is := after[i].list(long)
		for k := range names {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.3f\t\n", p.name, names[k], was[k], is[k], float64(is[k])/float64(was[k]))
		}
		for k, name := range soakKinds {
			fmt.Fprintf(w, "%s\tKiB %s\t%d\t%d\t\t\n", p.name, name, before[i].kinds[k], after[i].kinds[k])
		}
	}
	w.Flush()
	s.Log("\n" + b.String())
	for _, g := range s.grown(before, after, long) {
		s.Error(g)
	}
}
