package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestFlippedBits has the link between one client and the cluster flip bits, with right
// checksums of TCP. That client gets right results, or an error that names a peer; others
// notice nothing.
func TestFlippedBits(t *testing.T) {
	for name, encrypt := range map[string]*ipc.TLS{"crc": nil, "tls": {}} {
		t.Run(name, func(t *testing.T) {
			rounds := uint64(20)
			if testing.Short() {
				rounds = 3
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			c, addr := startFar(t, encrypt != nil)
			near, far := newHonest(t, dial(t, c, 1)), newHonest(t, dialFar(t, addr, encrypt))
			flips, failed := 0, 0
			for round := range rounds {
				near.round()
				far.round()
				through := &nettest.Through{Transport: tcp.New(), T: t, Fault: nettest.Flip, Seed: seed + 10*round, From: 1500, Among: 20_000}
				got, err := flipped(t.Context(), addr, &client.Options{Secret: []byte(secret), TLS: encrypt, Transport: through})
				flips += through.Done()
				switch {
				case err == nil && !got.same(far.want):
					t.Errorf("round %d: %+v behind flipped bits, expected %+v", round, got, far.want)
				case err != nil && strings.Contains(err.Error(), "tcp: dial 127.0.0.1:"):
					failed++ // a peer that it did not get in at, by its address
				case err != nil:
					failed++
					if !errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), "worker") && !strings.Contains(err.Error(), "dispatcher") {
						t.Errorf("round %d: the error names no peer: %v", round, err)
					}
				}
			}
			t.Logf("%d bits flipped: %d of %d rounds ended with an error that names a peer, the others right", flips, failed, rounds)
			if flips == 0 || failed == 0 {
				t.Errorf("%d bits flipped and %d rounds failed, expected some", flips, failed)
			}
			near.report("flipped bits of another, "+name, maxStall)
			far.report("flipped bits of another, by TCP, "+name, maxStall)
		})
	}
}

// flipped trains as a client of another host.
func flipped(ctx context.Context, addr string, o *client.Options) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e, err := client.Dial(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	return tryTrain(tensor.NewSession(e, &tensor.SessionOptions{Context: ctx}), 0)
}

// childPlain has many clients connect that know the secret and do not encrypt, again and
// again. It fails if one is let in.
func childPlain(ctx context.Context, args []string) error { // HOST:PORT CLIENTS
	var clients int
	if _, err := fmt.Sscan(args[1], &clients); err != nil {
		return err
	}
	refused := make(chan error)
	for range clients {
		go func() {
			for ctx.Err() == nil {
				e, err := client.Dial(ctx, args[0], &client.Options{Secret: []byte(secret)})
				if err == nil {
					e.Close()
					err = errors.New("a client without TLS was let in")
				}
				select {
				case refused <- err:
				case <-ctx.Done():
				}
			}
		}()
	}
	for n := 0; ; n++ {
		select {
		case err := <-refused:
			if ctx.Err() == nil && (!errors.Is(err, ipc.ErrRefused) || !strings.Contains(err.Error(), ipc.ErrTLS.Error())) {
				return err
			}
			if n == clients {
				fmt.Println("refused")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// TestPlain has clients without TLS at an address that asks for it. They are refused, and
// those with TLS go on and are let in.
func TestPlain(t *testing.T) {
	clients, rounds := 50, 20
	if testing.Short() {
		clients, rounds = 10, 3
	}
	c, addr := startFar(t, true)
	near, far := newHonest(t, dial(t, c, 1)), newHonest(t, dialFar(t, addr, &ipc.TLS{}))
	plain := attack(t, "plain", addr, fmt.Sprint(clients))
	for range rounds {
		near.round()
		far.round()
		dialFar(t, addr, &ipc.TLS{}).Close()
	}
	interrupt(t, plain)
	near.report("clients without TLS", maxStallFull)
	far.report("clients without TLS, by TCP with it", maxStallFull)
}
