package collective

import (
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// FuzzControl: what another rank says beside its calls may be anything. Whatever it is,
// this rank's errors name ranks of the group, and what is kept stays small.
func FuzzControl(f *testing.F) {
	for kind, body := range map[uint32]string{
		kindAbort:  `{"Rank":1,"By":2,"Code":"timeout","Text":"late"}`,
		kindBye:    `{"Calls":17}`,
		kindAsk:    `{"Ask":3}`,
		kindAnswer: `{"Ask":1,"Calls":18446744073709551615,"InCall":true}`,
		kindValue:  `{"Key":"world/1.0#1","Body":"aGVsbG8="}`,
		kindView:   `{"Round":1,"Ranks":[0,2,-7]}`,
	} {
		f.Add(kind, []byte(body))
	}
	f.Add(uint32(kindAbort), []byte(`{"Rank":99,"By":-5}`))
	f.Fuzz(func(t *testing.T, kind uint32, body []byte) {
		g := memWorld([]int{0, 0, 1})[0]
		g.control.peers = make([]peer, 3)
		g.control.taps = make([]*tap, 3)
		for i := range g.control.peers {
			g.control.peers[i].values, g.control.peers[i].views = map[string][]byte{}, map[int][]int{}
		}
		for i := range 2 * maxValues {
			g.control.handle(1+i%2, ipc.Message{Kind: kind, Body: body})
		}
		for _, p := range g.control.peers {
			if len(p.values) > maxValues || len(p.views) > maxValues {
				t.Fatalf("%d values and %d views are kept", len(p.values), len(p.views))
			}
		}
		if e, ok := g.Err().(*Error); ok && (e.Rank < 0 || e.Rank >= 3 || e.By < 0 || e.By >= 3 || e.Host == "" || e.Error() == "") {
			t.Fatalf("%#v", e)
		}
		_, _ = decode[record](1, body)
		_, _ = decode[any](1, body)
	})
}
