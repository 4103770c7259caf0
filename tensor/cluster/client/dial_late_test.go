package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// late is a transport whose dialers go on when the listener has told them something.
type late struct {
	local.Transport
	told chan struct{}
}

func (l late) Dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	c, err := l.Transport.Dial(ctx, addr, o)
	if err == nil {
		<-l.told
	}
	return c, err
}

// TestDisplaced: a client connects again if its connection was ended, before it opened a
// session, to make room for others. For another reason it fails with that.
func TestDisplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "rs") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "d")
	l, err := local.New().Listen(path, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleServer}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := &client.Options{Transport: late{local.New(), make(chan struct{})}}
	end := make(chan error, 1)
	go func() {
		_, err := client.Dial(ctx, path, o)
		end <- err
	}()
	for _, code := range []wire.Code{wire.CodeQuota, wire.CodeQuota, wire.CodeShutdown} {
		c, err := l.Accept(ctx)
		if err == nil {
			err = ipc.Send(ctx, c, ipc.Message{Kind: wire.KindFail, Body: wire.Append(nil, &wire.Fail{Code: code, Text: "it says why"})})
		}
		if err != nil {
			t.Fatal(err)
		}
		o.Transport.(late).told <- struct{}{}
		defer c.Close()
	}
	if err := <-end; !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), "it says why") {
		t.Errorf("%v, expected the third reason", err)
	}
}

// TestDisplacedLate: a client connects again if its connection was ended to make room for
// others while it opened a session. If the dispatcher goes on with the connection, it is
// the session that was refused.
func TestDisplacedLate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "rs") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "d")
	l, err := local.New().Listen(path, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleServer}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := make(chan error, 1)
	go func() {
		_, err := client.Dial(ctx, path, nil)
		end <- err
	}()
	for n := range 3 {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		hear(t, ctx, c, wire.KindOpenSession)
		fail := &wire.Fail{Code: wire.CodeQuota, Text: fmt.Sprint("answer ", n)}
		if err := ipc.Send(ctx, c, ipc.Message{Kind: wire.KindFail, Body: wire.Append(nil, fail)}); err != nil {
			t.Fatal(err)
		}
		if n < 2 {
			c.Close()
			continue
		}
		hear(t, ctx, c, wire.KindStatus)
		if err := ipc.Send(ctx, c, ipc.Message{Kind: wire.KindStatusReply, Body: wire.Append(nil, &wire.StatusReply{})}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-end; !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), "answer 2") {
		t.Errorf("%v, expected the answer over the connection that stayed", err)
	}
}

// hear receives a message of a kind.
func hear(t *testing.T, ctx context.Context, c ipc.Conn, kind uint32) {
	t.Helper()
	m, err := c.Recv(ctx)
	if err != nil || m.Kind != kind {
		t.Fatalf("%s, %v; expected %s", wire.KindName(m.Kind), err, wire.KindName(kind))
	}
	c.Release()
}
