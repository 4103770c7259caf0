package onehost

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// # Death notices
//
// A rank whose comm ends writes the reason into its page, once. It stores the state last
// (release), so that a rank that loads another state than alive (acquire) sees the
// reason.
//
//	 0  state u64: alive, or the reason of the notice
//	 8  length u64 of the notice
//	16  a protocol.Notice, in at most protocol.MaxNotice(MaxRanks) bytes
const alive = 0

// publish writes n into the writer's own page, which has no notice yet.
func (p *page) publish(n protocol.Notice) {
	b := p.mem[offDeath+16 : offDeath+16 : offLooks]
	binary.LittleEndian.PutUint64(p.mem[offDeath+8:], uint64(len(n.Append(b, p.shape.ranks))))
	storeRelease(p.state, uint64(n.Reason))
}

// deathNotice reads the notice of a peer's page. It is data from another process: the
// error says what is wrong with it.
func (p *page) deathNotice() (protocol.Notice, error) {
	state := atomic.LoadUint64(p.state)
	// a copy: its owner can still change it
	b := append([]byte(nil), p.mem[offDeath+8:offLooks]...)
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8) {
		return protocol.Notice{}, fmt.Errorf("%w: a death notice of %d bytes", ipc.ErrCorrupt, n)
	}
	d, err := protocol.ParseNotice(b[8:8+n], p.shape.ranks)
	if err == nil && uint64(d.Reason) != state {
		err = fmt.Errorf("a death notice of state %d for reason %d", state, d.Reason)
	}
	return d, err
}
