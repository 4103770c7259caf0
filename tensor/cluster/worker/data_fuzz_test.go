package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// FuzzLink has a client on another host send anything over its data connection: messages
// of any kind about any block, and more or fewer bytes than are expected. The worker goes
// on, and nothing of the session is left.
func FuzzLink(f *testing.F) {
	w, dev, conn := serveFuzzed(f)
	f.Add([]byte{0, 0, 10, 2, 0, 10})                              // an upload
	f.Add([]byte{0, 0, 200, 0, 0, 10, 2, 0, 200, 2, 1, 10})        // two, with other tags
	f.Add([]byte{1, 3, 10, 0, 3, 255})                             // no result, no end
	f.Add([]byte{3, 19, 5, 1, 2, 3, 4, 5, 4})                      // half a message
	f.Add([]byte{0, 1, 50, 2, 0, 50, 0, 1, 50, 2, 0, 50, 0, 2, 0}) // one twice
	last := uint64(0)
	f.Fuzz(func(t *testing.T, script []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		last += 2
		fx := &fixture{T: t, ctx: ctx, w: w, dev: dev, conn: conn, run: map[uint64]*wire.History{}}
		c := fx.openFar(last)
		sent := uint64(0)
		for len(script) >= 3 && c.conn.Err() == nil {
			op, a, b := script[0]%5, script[1], script[2]
			script = script[3:]
			h := wire.Handle{Segment: uint64(a % 4), Off: uint64(a) << 6, Len: uint64(b)}
			if b > 250 {
				h.Len = 1 << (b - 192)
			}
			switch op {
			case 0:
				fuzzSay(c, wire.KindPush, wire.Append(nil, &wire.Transfer{Handle: h}))
			case 1:
				fuzzSay(c, wire.KindPull, wire.Append(nil, &wire.Transfer{Handle: h}))
			case 2: // bytes, by the tag that is expected or another
				if c.bulk.BeginSend(sent+uint64(a%2), make([]byte, b)) != nil {
					continue
				}
				sent++
				for done, err := false, error(nil); !done && err == nil && ctx.Err() == nil; {
					done, err = c.bulk.ProgressSend()
				}
			case 3:
				n := min(int(b), len(script))
				fuzzSay(c, uint32(a), script[:n])
				script = script[n:]
			case 4:
				c.conn.Close()
			}
		}
		c.conn.Close()
		fx.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: last}))
		fx.open(last+1, 0) // it has been closed when this one is open
		if st := dev.Arena().Stats(); st.Leases != 0 || st.Blocks != 0 {
			t.Errorf("%d leases and %d blocks are left", st.Leases, st.Blocks)
		}
		fx.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: last + 1}))
	})
}

// fuzzSay sends a message as long as the conn stands.
func fuzzSay(c *farClient, kind uint32, body []byte) {
	buf, err := c.conn.Reserve(c.ctx, kind, len(body))
	if err != nil {
		return
	}
	copy(buf, body)
	_ = c.conn.Commit()
}
