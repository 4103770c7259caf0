package route_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/net/tcp"
)

func testContext(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// board is the exchange of a group in one process.
type board struct {
	mu    sync.Mutex
	size  int
	round *round
}

type round struct {
	values [][]byte
	left   int
	full   chan struct{}
}

func newBoard(size int) *board { return &board{size: size} }

// exchange returns the function of one rank.
func (b *board) exchange(rank int) func(context.Context, []byte) ([][]byte, error) {
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		b.mu.Lock()
		if b.round == nil {
			b.round = &round{values: make([][]byte, b.size), left: b.size, full: make(chan struct{})}
		}
		r := b.round
		r.values[rank] = bytes.Clone(mine)
		if r.left--; r.left == 0 {
			close(r.full)
			b.round = nil
		}
		b.mu.Unlock()
		select {
		case <-r.full:
			return r.values, nil
		case <-ctx.Done():
		}
		select {
		case <-r.full: // all have spoken: a later cancel ends no exchange
			return r.values, nil
		default:
			return nil, ctx.Err()
		}
	}
}

func socketDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// mesh connects size ranks in this process; change may change each one's options.
func mesh(t testing.TB, ctx context.Context, size int, change func(rank int, o *route.MeshOptions)) ([][]route.Member, []error) {
	t.Helper()
	dir, b := socketDir(t), newBoard(size)
	members, errs := make([][]route.Member, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		w, err := local.NewWaiter()
		if err != nil {
			t.Fatal(err)
		}
		o := route.MeshOptions{Rank: r, Size: size, Name: fmt.Sprint("number ", r), Waiter: w, Dir: dir, Exchange: b.exchange(r), Secret: []byte("the secret")}
		if change != nil {
			change(r, &o)
		}
		wg.Go(func() { members[r], errs[r] = route.Mesh(ctx, o) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, ms := range members {
			for _, m := range ms {
				if m.Conn != nil {
					m.Conn.Close()
				}
			}
		}
	})
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left in the directory", len(left))
	}
	return members, errs
}

// checkMesh makes every rank send to every other, and checks which ranks share a host.
func checkMesh(t *testing.T, ctx context.Context, members [][]route.Member, sameHost func(i, j int) bool) {
	t.Helper()
	for i, ms := range members {
		for j, m := range ms {
			if m.Rank != j || m.Name != fmt.Sprint("number ", j) || m.PID != os.Getpid() || (m.Conn == nil) != (i == j) || m.Host != members[j][j].Host {
				t.Fatalf("rank %d sees rank %d as %+v", i, j, m)
			}
			if i == j {
				continue
			}
			bulk := m.Conn.Features().Bulk != nil
			if same := m.Host == ms[i].Host; same != sameHost(i, j) || same == bulk {
				t.Errorf("ranks %d and %d: same host %v, expected %v; bulk %v", i, j, same, sameHost(i, j), bulk)
			}
			if _, err := m.Conn.Reserve(ctx, uint32(100*i+j), 0); err != nil {
				t.Fatal(err)
			}
			if err := m.Conn.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for j, ms := range members {
		for i, m := range ms {
			if i == j {
				continue
			}
			msg, err := m.Conn.Recv(ctx)
			if err != nil || msg.Kind != uint32(100*i+j) {
				t.Fatalf("rank %d received %d from rank %d: %v", j, msg.Kind, i, err)
			}
			m.Conn.Release()
		}
	}
}

func TestMesh(t *testing.T) {
	for _, c := range []struct {
		name   string
		size   int
		change func(rank int, o *route.MeshOptions)
		same   func(i, j int) bool
	}{
		{"one", 1, nil, nil},
		{"one host", 4, nil, func(i, j int) bool { return true }},
		{"tcp", 4, func(_ int, o *route.MeshOptions) { o.Order = route.Apart() }, func(i, j int) bool { return false }},
		{"two hosts", 5, func(r int, o *route.MeshOptions) { o.Host = fmt.Sprint("host", r%2) }, func(i, j int) bool { return i%2 == j%2 }},
		{"one apart", 3, func(r int, o *route.MeshOptions) {
			if r == 1 {
				o.Order = route.Apart()
			}
		}, func(i, j int) bool { return i != 1 && j != 1 }},
		{"loopback of IPv6", 3, func(r int, o *route.MeshOptions) { o.Order, o.Bind = route.Apart(), "::1" }, func(i, j int) bool { return false }},
		{"interface", 2, func(r int, o *route.MeshOptions) { o.Order, o.Bind = route.Apart(), "lo" }, func(i, j int) bool { return false }},
		{"no secret", 3, func(r int, o *route.MeshOptions) { o.Order, o.Secret = route.Apart(), nil }, func(i, j int) bool { return false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t, 30*time.Second)
			members, errs := mesh(t, ctx, c.size, c.change)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			checkMesh(t, ctx, members, c.same)
		})
	}
}

// third is a transport that no package knows: TCP under another name, whose addresses the
// others don't reach.
type third struct{ *tcp.Transport }

const thirdPrefix = "third:"

func (third) Name() string             { return "third" }
func (third) Reaches(addr string) bool { return strings.HasPrefix(addr, thirdPrefix) }

func (x third) Dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	return x.Transport.Dial(ctx, strings.TrimPrefix(addr, thirdPrefix), o)
}

func (x third) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	l, addrs, err := x.Transport.ListenAny(at, o)
	for i := range addrs {
		addrs[i] = thirdPrefix + addrs[i]
	}
	return l, addrs, err
}

// TestThirdTransport: a transport in Order is used where it is the best, and one that is
// missing on a rank leaves the next.
func TestThirdTransport(t *testing.T) {
	ctx := testContext(t, 30*time.Second)
	members, errs := mesh(t, ctx, 4, func(r int, o *route.MeshOptions) {
		o.Host = fmt.Sprint("host", r/2)
		if r != 3 {
			o.Order = []ipc.Transport{local.New(), third{tcp.New()}, tcp.New()}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, ms := range members {
		for j, m := range ms {
			if i == j {
				continue
			}
			isThird := strings.HasPrefix(m.Addr, thirdPrefix)
			if want := i/2 != j/2 && i > j && i != 3; i > j && isThird != want {
				t.Errorf("rank %d dialed rank %d at %s", i, j, m.Addr)
			}
		}
	}
	checkMesh(t, ctx, members, func(i, j int) bool { return i/2 == j/2 })
}

// absent is a transport that fails to listen.
type absent struct {
	third
	err error
}

func (a absent) ListenAny(ipc.Place, *ipc.Options) (ipc.Listener, []string, error) {
	return nil, nil, a.err
}

// TestMeshAbsent checks that a transport which cannot be used leaves the others, and that
// only one that this host should have is warned about.
func TestMeshAbsent(t *testing.T) {
	for _, c := range []struct {
		err   error
		level string
	}{
		{fmt.Errorf("no device: %w", errors.ErrUnsupported), "level=INFO"},
		{errors.New("the device is lost"), "level=WARN"},
	} {
		var logs [2]lockedLog
		_, errs := mesh(t, testContext(t, 30*time.Second), 2, func(r int, o *route.MeshOptions) {
			o.Logger = slog.New(slog.NewTextHandler(&logs[r], nil))
			o.Order = []ipc.Transport{absent{third{tcp.New()}, c.err}, tcp.New()}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for r := range logs {
			if got := logs[r].String(); !strings.Contains(got, c.level) || !strings.Contains(got, c.err.Error()) {
				t.Errorf("rank %d with %q logged %q, expected %s", r, c.err, got, c.level)
			}
		}
	}
}

// lockedLog is a log that is read while it may be written.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// deaf is TCP that cannot dial, as behind a firewall.
type deaf struct{ *tcp.Transport }

func (deaf) Reaches(string) bool { return false }

// TestMeshReversed: a rank that cannot open connections is dialed by the lower ones.
func TestMeshReversed(t *testing.T) {
	ctx := testContext(t, 30*time.Second)
	members, errs := mesh(t, ctx, 4, func(r int, o *route.MeshOptions) {
		if o.Order = route.Apart(); r == 2 {
			o.Order = []ipc.Transport{deaf{tcp.New()}}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	checkMesh(t, ctx, members, func(i, j int) bool { return false })
}

// TestMeshWrongSecret: a rank with another secret and the others learn it at once.
func TestMeshWrongSecret(t *testing.T) {
	ctx := testContext(t, 30*time.Second)
	b := newBoard(2)
	dir := socketDir(t)
	listening := make(chan error, 1)
	go func() {
		_, err := route.Mesh(ctx, route.MeshOptions{Rank: 0, Size: 2, Dir: dir, Order: route.Apart(), Exchange: b.exchange(0), Secret: []byte("ours")})
		listening <- err
	}()
	_, err := route.Mesh(ctx, route.MeshOptions{Rank: 1, Size: 2, Dir: dir, Order: route.Apart(), Exchange: b.exchange(1), Secret: []byte("another")})
	var re *route.RankError
	if !errors.Is(err, ipc.ErrSecret) || !errors.As(err, &re) || re.Rank != 0 || re.Addr == "" {
		t.Errorf("rank 1: %v", err)
	}
	if err := <-listening; !errors.Is(err, ipc.ErrSecret) || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("rank 0: %v", err)
	}
}

// fakeCard is what a rank says that listens at an address of no process.
const fakeCard = `{"Name":"elsewhere","PID":4711,"Nonce":"n","Offers":[{"Transport":"tcp","Addrs":["127.0.0.1:1"]}]}`

// TestMeshMissing: a rank that never connects and cannot be reached is named, with its
// address.
func TestMeshMissing(t *testing.T) {
	for rank := range 2 {
		ctx := testContext(t, 30*time.Second)
		b := newBoard(2)
		go func() { // the other rank says where it is and does nothing more
			exchange := b.exchange(1 - rank)
			for _, says := range []string{fakeCard, `{"Why":"it did not try"}`, `{"Why":"nor then"}`} {
				_, _ = exchange(ctx, []byte(says))
			}
		}()
		_, err := route.Mesh(ctx, route.MeshOptions{Rank: rank, Size: 2, Dir: socketDir(t), Exchange: b.exchange(rank)})
		var re *route.RankError
		if !errors.Is(err, route.ErrMesh) || !errors.As(err, &re) || re.Rank != 1-rank || re.Addr != "127.0.0.1:1" || !errors.Is(err, ipc.ErrNoListener) {
			t.Errorf("rank %d: %v", rank, err)
		}
		for _, part := range []string{fmt.Sprintf("rank %d (elsewhere, pid 4711)", 1-rank), "127.0.0.1:1"} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("rank %d: %v: no %s", rank, err, part)
			}
		}
	}
}

// TestMeshCanceled: a mesh whose other ranks say no more ends with its context.
func TestMeshCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t, 30*time.Second))
	b := newBoard(2)
	go func() {
		_, _ = b.exchange(1)(ctx, []byte(fakeCard))
		cancel()
	}()
	_, err := route.Mesh(ctx, route.MeshOptions{Rank: 0, Size: 2, Dir: socketDir(t), Exchange: b.exchange(0)})
	if !errors.Is(err, route.ErrMesh) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestMeshBadExchange: what other ranks say is checked, and the rank that said it is
// named.
func TestMeshBadExchange(t *testing.T) {
	offers := `"Offers":[{"Transport":"tcp","Addrs":["127.0.0.1:1"]}]`
	for name, answers := range map[string][2]string{
		"no json":          {"{", ""},
		"no addresses":     {`{"Nonce":"n"}`, ""},
		"no nonce":         {`{` + offers + `}`, ""},
		"a long nonce":     {`{"Nonce":"` + strings.Repeat("n", 29) + `",` + offers + `}`, ""},
		"a name":           {`{"Nonce":"n","Offers":[{"Transport":"tcp","Addrs":["localhost:1"]}]}`, ""},
		"long":             {strings.Repeat(" ", 5000), ""},
		"reaches above":    {fakeCard, `{"Reached":[[0,9,1]]}`},
		"reaches below":    {fakeCard, `{"Reached":[[-1,0,1]]}`},
		"reaches badly":    {fakeCard, `{"Reached":[[1,0,1]]}`},
		"reaches itself":   {fakeCard, `{"Reached":[[1,2,1]]}`},
		"reaches twice":    {fakeCard, `{"Reached":[[0,1,1],[0,1,1]]}`},
		"reaches nowhere":  {fakeCard, `{"Reached":[[0,1,0]]}`},
		"reaches anywhere": {fakeCard, `{"Reached":[[0,1,99]]}`},
		"did not reach":    {fakeCard, `{"Reached":[[0,1,1]]}`},
		"no spans":         {fakeCard, `{"Reached":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t, 30*time.Second)
			round := 0
			_, err := route.Mesh(ctx, route.MeshOptions{Rank: 0, Size: 2, Dir: socketDir(t), Exchange: func(_ context.Context, mine []byte) ([][]byte, error) {
				round++
				return [][]byte{mine, []byte(answers[round-1])}, nil
			}})
			var re *route.RankError
			if !errors.As(err, &re) || re.Rank != 1 {
				t.Errorf("%v", err)
			}
		})
	}
	failed := errors.New("it failed")
	if _, err := route.Mesh(context.Background(), route.MeshOptions{Rank: 0, Size: 2, Dir: socketDir(t),
		Exchange: func(context.Context, []byte) ([][]byte, error) { return nil, failed }}); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if _, err := route.Mesh(context.Background(), route.MeshOptions{Rank: 0, Size: 3, Dir: socketDir(t),
		Exchange: func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine, mine}, nil }}); !errors.Is(err, route.ErrMesh) {
		t.Errorf("too few values: %v", err)
	}
}

func TestMeshOptions(t *testing.T) {
	for _, o := range []route.MeshOptions{{}, {Size: -1}, {Size: 1, Rank: 1}, {Size: 2, Rank: -1}, {Size: 2}, {Size: 1 << 20}} {
		if _, err := route.Mesh(context.Background(), o); !errors.Is(err, ipc.ErrBadOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestLeftovers: what a rank left that was killed while it connected goes when the next
// ones connect.
func TestLeftovers(t *testing.T) {
	ctx := testContext(t, 30*time.Second)
	// which checks that nothing is left
	_, errs := mesh(t, ctx, 2, func(rank int, o *route.MeshOptions) {
		if rank > 0 {
			return
		}
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(o.Dir, "rank-1-dead"), Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		if err := os.WriteFile(filepath.Join(o.Dir, "rank-1-dead.lock"), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
