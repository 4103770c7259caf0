package route_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
)

func TestOrder(t *testing.T) {
	var names []string
	for _, tr := range route.Order() {
		names = append(names, tr.Name())
	}
	if got := strings.Join(names, " "); got != "local tcp" {
		t.Errorf("order %q", got)
	}
}

// TestDial takes the first transport that gets through, whatever the order of the
// addresses.
func TestDial(t *testing.T) {
	ctx := testContext(t, 30*time.Second)
	order := route.Order()
	path := filepath.Join(socketDir(t), "s")
	var addrs []string
	for _, addr := range []string{"127.0.0.1:0", path} {
		l, err := route.Listen(order, addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr())
	}
	c, err := route.Dial(ctx, order, addrs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Features().Bulk != nil {
		t.Error("TCP was chosen over shared memory")
	}
	far, err := route.Dial(ctx, order, []string{path + "-nobody", addrs[0]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if far.Features().Bulk == nil {
		t.Error("no TCP where no process listens at the path")
	}
	if _, err := route.Dial(ctx, order, []string{path + "-nobody", "127.0.0.1:1"}, nil); !errors.Is(err, ipc.ErrNoListener) ||
		!strings.Contains(err.Error(), "nobody") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("two that fail: %v", err)
	}
	if _, err := route.Dial(ctx, order, []string{"here", "there"}, nil); !errors.Is(err, route.ErrNoRoute) {
		t.Errorf("no route: %v", err)
	}
	for addr, want := range map[string]string{
		"localhost": `"localhost" has no port, expected localhost:PORT if it is a host`, "::1": `"::1" has no port, expected [::1]:PORT`,
		"10.0.0.1": "expected 10.0.0.1:PORT", "my_host": "expected my_host:PORT", "127.0.0.1:": "expected 127.0.0.1:PORT", "[::1]:": "expected [::1]:PORT",
		"8080": `"8080" has no host, expected HOST:8080 if it is a port`, "65536": `this address: "65536"`, ":": `this address: ":"`, "a/b": `this address: "a/b"`, "": `this address: ""`,
	} {
		_, err := route.Listen(order, addr, nil)
		if !errors.Is(err, route.ErrNoRoute) || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "this") && strings.Contains(err.Error(), "PORT") {
			t.Errorf("Listen at %q: %v, expected %q", addr, err, want)
		}
	}
	if _, err := route.Listen(order, "nowhere", nil); !errors.Is(err, route.ErrNoRoute) {
		t.Errorf("Listen: %v", err)
	}
}
