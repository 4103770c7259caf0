package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestRefusedMonitor: the reason of a dispatcher that refuses the monitor, and has closed
// the connection before the question, is returned.
func TestRefusedMonitor(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var net ipctest.Network
	l, err := net.Listen("pipe:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m, err := client.NewMonitor(ctx, &client.Options{Transport: &net}, l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	fail := wire.Append(nil, &wire.Fail{Code: wire.CodeQuota, Text: "too many ask"})
	if buf, err := c.Reserve(ctx, wire.KindFail, len(fail)); err != nil {
		t.Fatal(err)
	} else {
		copy(buf, fail)
	}
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := m.Status(ctx); err == nil || !strings.Contains(err.Error(), "too many ask") {
		t.Errorf("%v; expected the reason", err)
	}
	if _, err := m.Status(ctx); err == nil || !strings.Contains(err.Error(), ipc.ErrPeerGone.Error()) {
		t.Errorf("asked again: %v; expected %v", err, ipc.ErrPeerGone)
	}
}
