package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

const farSecret = "a secret of two hosts"

// farCluster is a dispatcher in this process that is reached over shared memory and over
// TCP, and workers, processes of their own, which are reached over one of them each.
type farCluster struct {
	d    *dispatcher.Dispatcher
	addr map[string]string // by transport

	workers []*process
}

// childFar is a worker that is reached over TCP: ADDR NAME.
func childFar(ctx context.Context, args []string) error {
	dev, err := newDevice("")
	if err != nil {
		return err
	}
	w, err := worker.New(&worker.Options{Name: args[1], Device: dev, Secret: []byte(farSecret)})
	if err != nil {
		return err
	}
	// it ends first
	if err := w.Serve(ctx, args[0]); !errors.Is(err, worker.ErrDispatcher) {
		return err
	}
	return nil
}

func startFar(t *testing.T, workersOver ...string) *farCluster {
	t.Helper()
	d, err := dispatcher.New(&dispatcher.Options{Secret: []byte(farSecret)})
	if err != nil {
		t.Fatal(err)
	}
	dir := socketDir(t)
	near, err := local.New().Listen(filepath.Join(dir, "d"), d.ListenOptions())
	if err != nil {
		t.Fatal(err)
	}
	far, err := tcp.New().Listen("127.0.0.1:0", d.ListenOptions())
	if err != nil {
		t.Fatal(err)
	}
	c := &farCluster{d: d, addr: map[string]string{"local": near.Addr(), "tcp": far.Addr()}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, near, far) }()
	for i, over := range workersOver {
		name := "w"
		if i > 0 {
			name = fmt.Sprint("w", i)
		}
		c.workers = append(c.workers, run(t, "far", c.addr[over], name))
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *farCluster) dial(t testing.TB, over string, o client.Options) *client.Engine {
	t.Helper()
	o.Secret = []byte(farSecret)
	e, err := client.Dial(testContext(t), c.addr[over], &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestFarConformance: an engine on another host is an engine like any other.
func TestFarConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the values that travel are TestFarValues; this is 10 seconds")
	}
	c := startFar(t, "tcp")
	enginetest.Run(t, func(t *testing.T) tensor.Engine { return c.dial(t, "tcp", client.Options{}) }, &enginetest.Options{
		Grad: autograd.Grad, Programs: 20,
	})
}

// checkPaths checks what an engine says of how it reaches a worker, of which both dialed
// the dispatcher over the transports of these names.
func checkPaths(t *testing.T, e *client.Engine, over [2]string) {
	t.Helper()
	want := map[[2]string][2]string{
		{"local", "local"}: {"a queue of their own in shared memory", ""},
		{"local", "tcp"}:   {"TCP, a connection of their own", "the worker joined the dispatcher over TCP"},
		{"tcp", "local"}:   {"TCP, a connection of their own", "the client reached the dispatcher over TCP"},
		{"tcp", "tcp"}:     {"TCP, a connection of their own", "the client reached the dispatcher over TCP"},
	}[over]
	lines := e.Explain()
	for i, p := range e.Paths() {
		if p.String() != lines[i] || len(p.Workers) != 1 || !strings.HasPrefix(p.Why, want[1]) || (p.Why == "") != (want[1] == "") {
			t.Errorf("%q is %+v, expected because %q", lines[i], p, want[1])
		}
	}
	if all := strings.Join(lines, "\n"); len(lines) != 2 || !strings.Contains(all, want[0]) {
		t.Errorf("%s\nexpected %q", all, want[0])
	}
}

// TestFarValues moves values of many sizes there and back; none of their bytes goes
// through the dispatcher, be they read in place or sent from one to the other.
func TestFarValues(t *testing.T) {
	for _, over := range [][2]string{{"tcp", "tcp"}, {"tcp", "local"}, {"local", "tcp"}, {"local", "local"}} {
		t.Run(fmt.Sprintf("client %s worker %s", over[0], over[1]), func(t *testing.T) {
			c := startFar(t, over[1])
			e := c.dial(t, over[0], client.Options{})
			checkPaths(t, e, over)
			s := tensor.NewSession(e, &tensor.SessionOptions{Context: testContext(t)})
			for i, n := range []int{1, 63, 64, 65, 1000, 128 << 10, 128<<10 + 1, 700_001, 5 << 20} {
				src := make([]uint8, n)
				for k := range src {
					src[k] = byte(k*7 + k>>8*13 + i)
				}
				x := tensor.From(s, src, n)
				y := x.Add(x)
				got, err := tensor.Data[uint8](x) // as it was uploaded
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%d bytes came back otherwise, %v", n, err)
				}
				twice, err := tensor.Data[uint8](y)
				if err != nil {
					t.Fatal(err)
				}
				for k := range src {
					if twice[k] != 2*src[k] {
						t.Fatalf("element %d of %d is %d, expected %d", k, n, twice[k], 2*src[k])
					}
				}
				x.Free()
				y.Free()
			}
			// The dispatcher has counted what it forwarded before an answer to something
			// later is here.
			if _, err := e.Submit(testContext(t), &tensor.Batch{Base: 1 << 40, Sync: true}); err != nil {
				t.Fatal(err)
			}
			if st := c.d.Stats(); st.TensorBytes != 0 || st.Bytes > 20_000 {
				t.Errorf("%d bytes of tensors went through the dispatcher, %d bytes in all", st.TensorBytes, st.Bytes)
			}
		})
	}
}

// TestFarSameBlock uploads one block as two values, of which one is changed in place.
func TestFarSameBlock(t *testing.T) {
	c := startFar(t, "tcp")
	e := c.dial(t, "tcp", client.Options{})
	ctx := testContext(t)
	buf, err := e.Alloc(400)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buf.Bytes() {
		buf.Bytes()[i] = byte(i)
	}
	up := func(id uint64) tensor.Upload {
		return tensor.Upload{ID: id, DType: tensor.U8, Shape: tensor.Shape{400}, Buf: buf}
	}
	got, err := e.Submit(ctx, &tensor.Batch{Base: 10, Uploads: []tensor.Upload{up(1), up(2)}, Fetch: []uint64{2, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range got {
		if !bytes.Equal(f.Bytes, buf.Bytes()) {
			t.Errorf("result %d is another", i)
		}
		f.Release()
	}
}

// TestFarCancelled: a fetch that is given up on leaves a session that works.
func TestFarCancelled(t *testing.T) {
	c := startFar(t, "tcp")
	e := c.dial(t, "tcp", client.Options{})
	const n = 16 << 20
	buf, err := e.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buf.Bytes() {
		buf.Bytes()[i] = byte(i >> 10)
	}
	up := tensor.Upload{ID: 1, DType: tensor.U8, Shape: tensor.Shape{n}, Buf: buf}
	if _, err := e.Submit(testContext(t), &tensor.Batch{Base: 10, Uploads: []tensor.Upload{up}, Sync: true}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		// earlier and later
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		got, err := e.Submit(ctx, &tensor.Batch{Base: 20, Fetch: []uint64{1}})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, f := range got {
			f.Release()
		}
	}
	got, err := e.Submit(testContext(t), &tensor.Batch{Base: 20, Fetch: []uint64{1}})
	if err != nil || !bytes.Equal(got[0].Bytes, buf.Bytes()) {
		t.Errorf("after fetches that were given up: %v", err)
	}
}

// TestFarSecret tests that a client that does not know the secret is refused with that
// reason.
func TestFarSecret(t *testing.T) {
	c := startFar(t, "tcp")
	_, err := client.Dial(testContext(t), c.addr["tcp"], nil)
	if !errors.Is(err, ipc.ErrSecret) || !errors.Is(err, ipc.ErrRefused) {
		t.Errorf("%v", err)
	}
	if n := c.d.Stats().Refused; n != 1 {
		t.Errorf("%d refused, expected 1", n)
	}
}

// TestFarTogether: two workers run a session together, of which one shares memory with
// the client or none does. Each gets uploads in its way, and no byte of a tensor goes
// through the dispatcher.
func TestFarTogether(t *testing.T) {
	for _, over := range [][3]string{{"local", "local", "tcp"}, {"local", "tcp", "tcp"}, {"tcp", "local", "tcp"}} {
		t.Run(fmt.Sprintf("client %s workers %s %s", over[0], over[1], over[2]), func(t *testing.T) {
			c := startFar(t, over[1], over[2])
			e := c.dial(t, over[0], client.Options{Config: rows(2)})
			s := tensor.NewSession(e, &tensor.SessionOptions{Context: testContext(t)})
			const h, w = 301, 257
			data := make([]float32, h*w)
			want := 0.0
			for i := range data {
				data[i] = float32(i % 100)
				want += float64(data[i])
			}
			var x *tensor.Tensor
			s.Signal("rows", func() { x = tensor.From(s, data, h, w) })
			if got, err := x.Sum().Item(); err != nil || got != want {
				t.Fatalf("sum %v, %v; expected %v", got, err, want)
			}
			got, err := tensor.Data[float32](x.MulS(2)) // half of each
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if got[i] != 2*data[i] {
					t.Fatalf("element %d is %v, expected %v", i, got[i], 2*data[i])
				}
			}
			near := over[0] == "local" && over[1] == "local"
			if st := e.Stats(); st.Calls == 0 || st.Moved == 0 || near != (st.Segments > 0) || e.Writers() != 0 {
				t.Errorf("%+v, %d writers", st, e.Writers())
			}
			if st := c.d.Stats(); st.TensorBytes != 0 || st.Bytes > 40_000 {
				t.Errorf("%d bytes of tensors went through the dispatcher, %d bytes in all", st.TensorBytes, st.Bytes)
			}
		})
	}
}

// TestFarKilled: a worker on another host that dies while tensors go to it and from it
// ends the session with its name.
func TestFarKilled(t *testing.T) {
	for i := range 6 {
		c := startFar(t, "tcp")
		e := c.dial(t, "tcp", client.Options{})
		const n = 4 << 20
		buf, err := e.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		clear(buf.Bytes())
		killed := make(chan error, 1)
		time.AfterFunc(time.Duration(i*i)*time.Millisecond, func() { killed <- c.workers[0].Process.Kill() })
		for id := uint64(1); err == nil; id++ {
			var got []tensor.Fetched
			got, err = e.Submit(testContext(t), &tensor.Batch{Base: 1 << 40, Frees: []uint64{id - 1}, Fetch: []uint64{id},
				Uploads: []tensor.Upload{{ID: id, DType: tensor.U8, Shape: tensor.Shape{n}, Buf: buf}}})
			for _, f := range got {
				f.Release()
			}
		}
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrPeerGone) || !strings.Contains(err.Error(), `"w"`) {
			t.Errorf("killed after %d ms: %v", i*i, err)
		}
	}
}
