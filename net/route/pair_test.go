package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
)

const pairSecret = "what two ends know"

// pairOf opens a pair in this process. change may change each end's options, and heard
// what it hears of the other's words.
func pairOf(t *testing.T, change func(end int, o *route.PairOptions), heard func(end, round int, src []byte) []byte) (conns [2]ipc.Conn, errs [2]error) {
	t.Helper()
	ctx := testContext(t, 30*time.Second)
	said := [2]chan []byte{make(chan []byte, 8), make(chan []byte, 8)}
	end := make(chan int)
	dir := socketDir(t)
	for i := range 2 {
		round := 0
		o := route.PairOptions{Name: []string{"upper", "lower"}[i], Dials: i == 0, Secret: []byte(pairSecret), Dir: dir, Bind: "127.0.0.1"}
		o.Exchange = func(ctx context.Context, mine []byte) ([]byte, error) {
			said[i] <- mine
			select {
			case src := <-said[1-i]:
				if heard != nil {
					src = heard(i, round, src)
				}
				round++
				return src, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if change != nil {
			change(i, &o)
		}
		go func() {
			conns[i], errs[i] = route.Pair(ctx, o)
			end <- i
		}()
	}
	<-end
	<-end
	for _, c := range conns {
		if c != nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return conns, errs
}

// talked sends a message in both directions.
func talked(t *testing.T, conns [2]ipc.Conn) {
	t.Helper()
	ctx := testContext(t, 30*time.Second)
	for i, c := range conns {
		buf, err := c.Reserve(ctx, 7, 1)
		if err != nil {
			t.Fatal(err)
		}
		buf[0] = byte(i)
		if err := c.Commit(); err != nil {
			t.Fatal(err)
		}
		m, err := conns[1-i].Recv(ctx)
		if err != nil || m.Kind != 7 || m.Body[0] != byte(i) {
			t.Fatalf("%+v, %v", m, err)
		}
		conns[1-i].Release()
	}
}

// unreachable replaces the addresses in a card by some without a listener.
func unreachable(t *testing.T, src []byte) []byte {
	t.Helper()
	var w map[string]any
	if err := json.Unmarshal(src, &w); err != nil {
		t.Error(err)
	}
	if w["Offers"] != nil {
		w["Offers"] = []map[string]any{{"Transport": "tcp", "Addrs": []string{"127.0.0.1:1", "127.0.0.1:2"}}}
	}
	src, err := json.Marshal(w)
	if err != nil {
		t.Error(err)
	}
	return src
}

func TestPair(t *testing.T) {
	for name, c := range map[string]struct {
		change func(int, *route.PairOptions)
		heard  func(t *testing.T) func(int, int, []byte) []byte
		bulk   bool
	}{
		"one host": {},
		"over TCP": {change: func(_ int, o *route.PairOptions) { o.Order = route.Apart() }, bulk: true},
		"a waiter": {change: func(_ int, o *route.PairOptions) { o.Waiter, _ = local.NewWaiter() }},
		"no dir":   {change: func(end int, o *route.PairOptions) { o.Dir = "/proc/none" }, bulk: true},
		"the other way": {heard: func(t *testing.T) func(int, int, []byte) []byte {
			return func(end, round int, src []byte) []byte {
				if end == 0 && round == 0 { // the end that dials first fails
					return unreachable(t, src)
				}
				return src
			}
		}},
		"the other way, over TCP": {change: func(_ int, o *route.PairOptions) { o.Order = route.Apart() }, bulk: true,
			heard: func(t *testing.T) func(int, int, []byte) []byte {
				return func(end, round int, src []byte) []byte {
					if end == 0 && round == 0 {
						return unreachable(t, src)
					}
					return src
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var heard func(int, int, []byte) []byte
			if c.heard != nil {
				heard = c.heard(t)
			}
			conns, errs := pairOf(t, c.change, heard)
			if errs != [2]error{} {
				t.Fatal(errs)
			}
			for _, x := range conns {
				if bulk := x.Features().Bulk != nil; bulk != c.bulk {
					t.Errorf("bulk %v, expected %v", bulk, c.bulk)
				}
			}
			talked(t, conns)
		})
	}
}

// TestPairApart: when neither reaches the other, both say where they tried.
func TestPairApart(t *testing.T) {
	_, errs := pairOf(t, func(_ int, o *route.PairOptions) { o.Order = route.Apart() }, func(end, round int, src []byte) []byte {
		return unreachable(t, src)
	})
	for _, err := range errs {
		if !errors.Is(err, route.ErrPair) {
			t.Fatal(err)
		}
		for _, part := range []string{`"upper"`, `"lower"`, `from "upper"`, `from "lower"`, "127.0.0.1:1", "127.0.0.1:2"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: no %s", err, part)
			}
		}
	}
}

// TestPairSecret: an end with another secret is not let in, in either direction.
func TestPairSecret(t *testing.T) {
	conns, errs := pairOf(t, func(end int, o *route.PairOptions) {
		o.Order = route.Apart()
		if end == 1 {
			o.Secret = []byte("another secret")
		}
	}, nil)
	for i, err := range errs {
		if !errors.Is(err, route.ErrPair) || !strings.Contains(err.Error(), "secret") || conns[i] != nil {
			t.Errorf("end %d: %v", i, err)
		}
	}
}

// TestPairTLS has both ends use TLS, and then one alone.
func TestPairTLS(t *testing.T) {
	both, errs := pairOf(t, func(_ int, o *route.PairOptions) { o.Order, o.TLS = route.Apart(), &ipc.TLS{} }, nil)
	if both[0] == nil || both[1] == nil {
		t.Errorf("both ends have TLS: %v", errs)
	}
	one, errs := pairOf(t, func(end int, o *route.PairOptions) {
		if o.Order = route.Apart(); end == 1 {
			o.TLS = &ipc.TLS{}
		}
	}, nil)
	for i, err := range errs {
		if !errors.Is(err, route.ErrPair) || !strings.Contains(err.Error(), "start both ends with --tls") || one[i] != nil {
			t.Errorf("end %d, where one end has TLS: %v", i, err)
		}
	}
}

// cardWith is a card that is a report as well.
func cardWith(addrs, reached string) string {
	return `{"Nonce":"n","Offers":[{"Transport":"tcp","Addrs":[` + addrs + `]}],"Reached":[` + reached + `]}`
}

// TestPairHostile: the other end's texts are data.
func TestPairHostile(t *testing.T) {
	for name, src := range map[string]string{
		"no word":           "hello",
		"many addresses":    cardWith(strings.Repeat(`"127.0.0.1:1",`, 100)+`"127.0.0.1:1"`, ""),
		"too long":          strings.Repeat(" ", 9<<10),
		"a name":            cardWith(`"localhost:1"`, ""),
		"a negative number": cardWith(`"127.0.0.1:1"`, `[0,1,-1]`),
		"a large number":    cardWith(`"127.0.0.1:1"`, `[0,1,1000]`),
		"nowhere":           cardWith(`"127.0.0.1:1"`, ""),
		"elsewhere":         cardWith(`"127.0.0.1:1"`, `[0,1,1]`),
	} {
		t.Run(name, func(t *testing.T) {
			o := route.PairOptions{Name: "me", Secret: []byte(pairSecret), Order: route.Apart(), Bind: "127.0.0.1",
				Exchange: func(context.Context, []byte) ([]byte, error) { return []byte(src), nil }}
			if c, err := route.Pair(testContext(t, 30*time.Second), o); !errors.Is(err, route.ErrPair) {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
	if _, err := route.Pair(t.Context(), route.PairOptions{Name: "me"}); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("%v", err)
	}
}

// FuzzPair has the other end say anything.
func FuzzPair(f *testing.F) {
	f.Add([]byte(cardWith(`"127.0.0.1:1"`, "")), true)
	f.Add([]byte(cardWith(`"127.0.0.1:1"`, "[0,1,1]")), false)
	f.Add([]byte(`{"Nonce":"n","Offers":[{"Transport":"local","Near":true,"Addrs":["/tmp/none@00000000000000000000000000000000"]}],"Why":"no"}`), true)
	f.Fuzz(func(t *testing.T, src []byte, dials bool) {
		var w struct{ Offers []struct{ Addrs []string } }
		_ = json.Unmarshal(src, &w)
		var addrs []string
		for _, o := range w.Offers {
			addrs = append(addrs, o.Addrs...)
		}
		for _, addr := range addrs {
			if ap, err := netip.ParseAddrPort(addr); err == nil && !ap.Addr().IsLoopback() {
				return // another host
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		c, err := route.Pair(ctx, route.PairOptions{Name: "me", Dials: dials, Secret: []byte(pairSecret), Order: route.Apart(), Bind: "127.0.0.1",
			Exchange: func(context.Context, []byte) ([]byte, error) { return src, nil }})
		if err == nil {
			c.Close()
			t.Error("a conn with nobody")
		}
	})
}
