package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// nearConn and farConn are conns of peers that are only looked at.
type nearConn struct{ ipc.Conn }

func (nearConn) Err() error             { return nil }
func (nearConn) Peer() ipc.Peer         { return ipc.Peer{} }
func (nearConn) Features() ipc.Features { return ipc.Features{Files: true} }

type farConn struct {
	ipc.Conn
	addr string
}

func (farConn) Err() error             { return nil }
func (c farConn) Peer() ipc.Peer       { return ipc.Peer{Addr: c.addr} }
func (farConn) Features() ipc.Features { return ipc.Features{} }

// TestChoose: the workers of a session are of as few hosts as can be, as many of each,
// and a host's are neighbours by rank.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		workers string // name@host, and how many sessions it has
		want    int
		chosen  string
	}{
		{"a@ b@", 3, ""},
		{"a@:1 b@x:0", 1, "b"},
		{"a@:0 b@x:0", 1, "a"},
		{"a@:5 b@:5 c@x d@x", 2, "a b"}, // this host, whatever it has to do
		// one host, the one with the least to do
		{"a@ b@x:1 c@x:1 d@y e@y", 2, "d e"},
		{"a@ b@x c@x d@x", 3, "b c d"},             // the one that has enough
		{"z@ y@x a@ b@x", 4, "a z b y"},            // by host, then by name
		{"a@ b@ c@ d@x e@x f@x g@y", 4, "a b d e"}, // two of two hosts
		{"a@ b@ c@ d@x", 4, "a b c d"},             // as they are
		{"a@x b@x c@x d@y e@y", 5, "a b c d e"},    // all of two
		// no third host; this one before others of its size
		{"a@ b@x c@y d@z e@z", 3, "a d e"},
		// with the least to do, as many of each as can be
		{"a@:9 b@:1 c@:2 d@x:7 e@x:3", 4, "b c d e"},
		{"w1@2001:db8::1 w0@2001:db8::2 w2@", 3, "w2 w1 w0"},
	} {
		d := &Dispatcher{workers: map[string]*peer{}}
		for _, w := range strings.Fields(c.workers) {
			name, host, _ := strings.Cut(w, "@")
			sessions := 0
			if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host, "::") {
				if _, err := fmt.Sscan(host[i+1:], &sessions); err != nil {
					t.Fatal(err)
				}
				host = host[:i]
			}
			p := &peer{conn: nearConn{}, who: ipc.Peer{Name: name}, sessions: map[uint64]*session{}, device: &wire.Device{}}
			if host != "" {
				p.conn = farConn{addr: "[" + host + "]:77"}
			}
			for i := range sessions {
				p.sessions[uint64(i)] = nil
			}
			d.workers[name] = p
		}
		for range 5 { // the map's order means nothing
			var names []string
			for _, p := range choose(d.candidates(&session{want: c.want}), c.want) {
				names = append(names, p.who.Name)
			}
			if !slices.Equal(names, strings.Fields(c.chosen)) {
				t.Errorf("%d of %s: %v, expected %s", c.want, c.workers, names, c.chosen)
			}
		}
	}
}

// TestKinds tests that a session gets workers of one kind, of which those with the most
// free memory and the most speed first.
func TestKinds(t *testing.T) {
	gpu := func(bytes, used uint64) wire.Device {
		return wire.Device{Used: used, Info: device.Info{Kind: device.CUDA, Bytes: bytes, Flops: 6e13}}
	}
	cpu := func(flops float64) wire.Device { return wire.Device{Info: device.Info{Kind: device.CPU, Flops: flops}} }
	type workers = map[string]wire.Device
	for _, c := range []struct {
		name    string
		workers workers
		session session
		chosen  string
	}{
		{"the fastest kind", workers{"a": cpu(1e11), "g": gpu(80, 0)}, session{want: 1}, "g"},
		{"the wanted kind", workers{"a": cpu(1e11), "g": gpu(80, 0)}, session{want: 1, kind: device.CPU}, "a"},
		{"none of the wanted kind", workers{"a": cpu(1e11)}, session{want: 1, kind: device.CUDA}, ""},
		{"a kind that has enough", workers{"a": cpu(1e11), "b": cpu(0), "g": gpu(80, 0)}, session{want: 2}, "a b"},
		{"no kind has enough", workers{"a": cpu(1e11), "g": gpu(80, 0)}, session{want: 2}, ""},
		{"of several kinds", workers{"a": cpu(1e11), "g": gpu(80, 0)}, session{want: 2, mixed: true}, "a g"},
		{"the most free memory", workers{"g": gpu(80, 30), "h": gpu(60, 0), "i": gpu(40, 50)}, session{want: 1}, "h"},
		{"one that is not busy", workers{"a": {Busy: true, Info: cpu(2e11).Info}, "b": cpu(1e11)}, session{want: 1}, "b"},
		{"busy ones where there is no other", workers{"a": {Busy: true, Info: cpu(1e11).Info}}, session{want: 1}, "a"},
		{"the faster one", workers{"a": cpu(1e11), "b": cpu(2e11)}, session{want: 1}, "b"},
	} {
		d := &Dispatcher{workers: map[string]*peer{"unregistered": {conn: nearConn{}}}}
		for name, w := range c.workers {
			d.workers[name] = &peer{conn: nearConn{}, who: ipc.Peer{Name: name}, device: &w}
		}
		var names []string
		for _, p := range choose(d.candidates(&c.session), c.session.want) {
			names = append(names, p.who.Name)
		}
		if !slices.Equal(names, strings.Fields(c.chosen)) {
			t.Errorf("%s: %v, want %s", c.name, names, c.chosen)
		}
	}
}
