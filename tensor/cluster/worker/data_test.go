package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// farHandle returns the handle by which a client on another host names an upload of n
// bytes.
func farHandle(n uint64) wire.Handle { return wire.Handle{Segment: 77, Off: 4096, Len: n} }

func farUpload(id uint64, h wire.Handle) wire.Upload {
	return wire.Upload{ID: id, Value: wire.Value{DType: uint8(tensor.U8), Dims: []int{int(h.Len)}, Handle: h}}
}

// farClient is the client's end of a data connection, which a test plays.
type farClient struct {
	*fixture
	conn           ipc.Conn
	bulk           ipc.Bulk
	session        uint64
	pushed, pulled uint64
}

// openFar opens a session of a client that shares no memory with the worker.
func (f *fixture) openFar(session uint64) *farClient {
	f.Helper()
	token := bytes.Repeat([]byte{3}, 32)
	f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: session, Apart: true, Token: token, Name: "far"}))
	c, err := route.Pair(f.ctx, route.PairOptions{Name: "test", Dials: true, Order: route.Apart(), Secret: token, Exchange: f.words(session, token)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	var m wire.SessionOpened
	if err := wire.Parse(f.recv(wire.KindSessionOpened), &m); err != nil || !m.Apart || m.Session != session {
		f.Fatalf("%+v, %v", m, err)
	}
	f.run[session] = &wire.History{}
	return &farClient{fixture: f, conn: c, bulk: c.Features().Bulk, session: session}
}

// words exchanges Link messages, and checks that the worker sends the token once.
func (f *fixture) words(session uint64, token []byte) func(context.Context, []byte) ([]byte, error) {
	round := uint32(0)
	return func(_ context.Context, mine []byte) ([]byte, error) {
		var m wire.Link
		if err := wire.Parse(f.recv(wire.KindLink), &m); err != nil {
			return nil, err
		}
		if m.Session != session || m.Round != round || bytes.Equal(m.Token, token) != (round == 0) {
			f.Errorf("%+v in round %d", m, round)
		}
		f.send(wire.KindLink, wire.Append(nil, &wire.Link{Session: session, Round: round, Data: mine}))
		round++
		return m.Data, nil
	}
}

func (c *farClient) say(kind uint32, body []byte) {
	c.Helper()
	buf, err := c.conn.Reserve(c.ctx, kind, len(body))
	if err != nil {
		c.Fatal(err)
	}
	copy(buf, body)
	if err := c.conn.Commit(); err != nil {
		c.Fatal(err)
	}
}

func (c *farClient) ask(kind uint32, h wire.Handle) {
	c.Helper()
	c.say(kind, wire.Append(nil, &wire.Transfer{Handle: h}))
}

// wait calls progress until it reports that it is done.
func (c *farClient) wait(progress func() (bool, error)) {
	c.Helper()
	for {
		done, err := progress()
		if err != nil {
			c.Fatal(err)
		}
		if done {
			return
		}
		if c.ctx.Err() != nil {
			c.Fatal(c.ctx.Err())
		}
	}
}

// push uploads src, which may be longer than it is said to be.
func (c *farClient) push(h wire.Handle, parts ...[]byte) {
	c.Helper()
	c.ask(wire.KindPush, h)
	if err := c.bulk.BeginSend(c.pushed, parts...); err != nil {
		c.Fatal(err)
	}
	c.pushed++
	c.wait(c.bulk.ProgressSend)
	m, err := c.conn.Recv(c.ctx)
	if err != nil {
		c.Fatal(err)
	}
	defer c.conn.Release()
	var t wire.Transfer
	if err := wire.Parse(m.Body, &t); err != nil || m.Kind != wire.KindPushed || t.Handle != h {
		c.Errorf("%s %+v, %v", wire.KindName(m.Kind), t, err)
	}
}

// pull reads a result.
func (c *farClient) pull(h wire.Handle) []byte {
	c.Helper()
	c.ask(wire.KindPull, h)
	dst := make([]byte, h.Len)
	if err := c.bulk.BeginRecv(c.pulled, dst); err != nil {
		c.Fatal(err)
	}
	c.pulled++
	c.wait(func() (bool, error) {
		_, done, err := c.bulk.ProgressRecv()
		return done, err
	})
	return dst
}

// hungUp waits for the end of the conn.
func (c *farClient) hungUp() {
	c.Helper()
	for {
		m, err := c.conn.Recv(c.ctx)
		if err != nil {
			if c.ctx.Err() != nil {
				c.Fatal("the conn stands")
			}
			return
		}
		c.Errorf("%s", wire.KindName(m.Kind))
		c.conn.Release()
	}
}

// TestFar checks that an upload uses the data connection, is given back with the next
// answer, and that its value is read over that connection; nothing of it is left.
func TestFar(t *testing.T) {
	f := start(t, worker.Options{})
	c := f.openFar(1)
	h := farHandle(1000)
	src := bytes.Repeat([]byte("0123456789"), 100)
	c.push(h, bytes.Repeat([]byte("x"), 1000)) // given up, and sent again
	c.push(h, src[:300], src[300:])
	f.batch(&wire.Run{Session: 1, Seq: 1, Base: 100, Uploads: []wire.Upload{farUpload(1, h)}, Fetch: []uint64{1}})
	d := f.answer(wire.CodeOK, "")
	if len(d.Returned) != 1 || d.Returned[0] != h || len(d.Results) != 1 || d.Results[0].Handle.Len != 1000 || d.Results[0].Handle == h {
		t.Fatalf("%+v", d)
	}
	result := d.Results[0].Handle
	for range 3 {
		if got := c.pull(result); !bytes.Equal(got, src) {
			t.Errorf("%q", got)
		}
	}
	f.batch(&wire.Run{Session: 1, Seq: 2, Base: 100, Flags: wire.RunSync, Returns: []wire.Handle{result}})
	f.answer(wire.CodeOK, "")
	c.ask(wire.KindPull, result) // not its own any more
	c.hungUp()
	f.healthy(2)
}

// TestFarMany checks that a client can request more results at once than the worker keeps
// track of, while it reads none.
func TestFarMany(t *testing.T) {
	f := start(t, worker.Options{})
	c := f.openFar(1)
	const n = 1 << 20
	h := farHandle(n)
	src := bytes.Repeat([]byte("abcdefgh"), n/8)
	c.push(h, src)
	f.batch(&wire.Run{Session: 1, Seq: 1, Base: 100, Uploads: []wire.Upload{farUpload(1, h)}, Fetch: []uint64{1}})
	result := f.answer(wire.CodeOK, "").Results[0].Handle
	const pulls = 200
	for range pulls {
		c.ask(wire.KindPull, result)
	}
	dst := make([]byte, n)
	for i := range pulls {
		if err := c.bulk.BeginRecv(uint64(i), dst); err != nil {
			t.Fatal(err)
		}
		c.wait(func() (bool, error) {
			_, done, err := c.bulk.ProgressRecv()
			return done, err
		})
		if !bytes.Equal(dst, src) {
			t.Fatalf("result %d is another", i)
		}
		clear(dst)
	}
}

// TestFarMistakes checks that mistakes on the data connection end that connection, of
// which nothing is left, and that mistakes in messages through the dispatcher end the
// session.
func TestFarMistakes(t *testing.T) {
	h := farHandle(100)
	for what, do := range map[string]func(c *farClient){
		"nothing":           func(c *farClient) { c.ask(wire.KindPush, farHandle(0)) },
		"an endless one":    func(c *farClient) { c.ask(wire.KindPush, farHandle(1<<62)) },
		"malformed":         func(c *farClient) { c.say(wire.KindPush, make([]byte, 9)) },
		"another kind":      func(c *farClient) { c.ask(wire.KindPushed, h) },
		"an unknown result": func(c *farClient) { c.ask(wire.KindPull, h) },
		"another length": func(c *farClient) {
			c.ask(wire.KindPush, h)
			if err := c.bulk.BeginSend(0, make([]byte, 101)); err != nil {
				c.Error(err)
			}
			_, _ = c.bulk.ProgressSend()
		},
		"another tag": func(c *farClient) {
			c.ask(wire.KindPush, h)
			if err := c.bulk.BeginSend(1, make([]byte, 100)); err != nil {
				c.Error(err)
			}
			_, _ = c.bulk.ProgressSend()
		},
		"half a one": func(c *farClient) {
			c.push(farHandle(64), make([]byte, 64))
			c.ask(wire.KindPush, h)
			c.conn.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, worker.Options{})
			c := f.openFar(1)
			do(c)
			c.hungUp()
			f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{farUpload(1, h)}})
			f.failed(1, wire.CodeProtocol, "has not arrived")
			if st := f.dev.Arena().Stats(); st.Blocks != 0 {
				t.Errorf("%d blocks are left", st.Blocks)
			}
			f.healthy(2)
		})
	}
	for what, c := range map[string]struct {
		do   func(f *fixture)
		near bool
		text string
	}{
		"no upload":     {func(f *fixture) { f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{farUpload(1, h)}}) }, false, "has not arrived"},
		"shares memory": {func(f *fixture) { f.send(wire.KindLink, wire.Append(nil, &wire.Link{Session: 1})) }, true, "shares memory"},
		"a word too many": {func(f *fixture) {
			f.send(wire.KindLink, wire.Append(nil, &wire.Link{Session: 1, Round: 7}))
		}, false, "Link of round 7"},
		"a malformed word": {func(f *fixture) { f.send(wire.KindLink, append(wire.Append(nil, &wire.Link{Session: 1}), 1)) }, false, "Link"},
		"another shape": {func(f *fixture) {
			f.far.push(h, make([]byte, 100))
			u := farUpload(1, h)
			u.Dims = []int{99}
			f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{u}})
		}, false, "100 bytes, expected 99"},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, worker.Options{})
			if c.near {
				f.open(1, 0)
			} else {
				f.far = f.openFar(1)
			}
			c.do(f)
			f.failed(1, wire.CodeProtocol, c.text)
			if st := f.dev.Arena().Stats(); st.Blocks != 0 {
				t.Errorf("%d blocks are left", st.Blocks)
			}
			f.healthy(2)
		})
	}
}

// TestFarNoMemory checks that an upload without memory fails its batch, but neither the
// session nor the other uploads.
func TestFarNoMemory(t *testing.T) {
	const free = 8 << 20
	f := startWith(t, worker.Options{}, free)
	c := f.openFar(1)
	large, small := farHandle(2*free), farHandle(3)
	c.push(large, make([]byte, 2*free))
	c.push(small, []byte("abc"))
	f.batch(&wire.Run{Session: 1, Seq: 1, Flags: wire.RunSync, Uploads: []wire.Upload{farUpload(1, large), farUpload(2, small)}})
	if d := f.answer(wire.CodeNoMemory, "space"); len(d.Returned) != 2 {
		t.Errorf("%d given back, expected 2", len(d.Returned))
	}
	f.batch(&wire.Run{Session: 1, Seq: 2, Fetch: []uint64{2}})
	if got := c.pull(f.answer(wire.CodeOK, "").Results[0].Handle); string(got) != "abc" {
		t.Errorf("%q", got)
	}
}

// TestFarUnreachable checks that a session fails with the addresses that were tried if
// neither end can reach the other.
func TestFarUnreachable(t *testing.T) {
	f := start(t, worker.Options{})
	token := bytes.Repeat([]byte{3}, 32)
	f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 1, Apart: true, Token: token, Name: "far"}))
	words := f.words(1, token)
	say := func(w map[string]any) {
		src, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := words(f.ctx, src); err != nil {
			t.Fatal(err)
		}
	}
	offers := []map[string]any{{"Transport": "tcp", "Addrs": []string{"127.0.0.1:1"}}}
	say(map[string]any{"Label": "client x", "Nonce": "abc", "Offers": offers})
	say(map[string]any{"Why": "from \"client x\": no way"})
	say(map[string]any{})
	var m wire.Fail
	if err := wire.Parse(f.recv(wire.KindFail), &m); err != nil || m.Session != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, part := range []string{`"client x"`, `"worker w"`, "no way", "127.0.0.1:1"} {
		if !strings.Contains(m.Text, part) {
			t.Errorf("%q says nothing of %s", m.Text, part)
		}
	}
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	f.healthy(2)
}

// TestFarEarlyEnd checks that a session which ends before its data connection stands
// leaves nothing, and delays no other.
func TestFarEarlyEnd(t *testing.T) {
	f := start(t, worker.Options{})
	f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 1, Apart: true, Token: []byte("0123456789abcdef"), Name: "far"}))
	f.recv(wire.KindLink)
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	f.healthy(2)
}
