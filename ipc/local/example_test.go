package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// A server that answers in capitals, and a client; two processes, usually.
func Example() {
	ctx := context.Background()
	runtime, err := os.MkdirTemp("", "rs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(runtime)
	transport := local.New()
	l, err := transport.Listen(filepath.Join(runtime, "shout"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			m, err := c.Recv(ctx)
			if err != nil { // ipc.ErrPeerGone when the other closed or died
				return
			}
			buf, err := c.Reserve(ctx, m.Kind, len(m.Body))
			if err != nil {
				return
			}
			for i, b := range m.Body {
				buf[i] = b - 'a' + 'A'
			}
			c.Release()
			if c.Commit() != nil {
				return
			}
		}
	}()

	c, err := transport.Dial(ctx, l.Addr(), &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: "example"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "line", "cache"} {
		buf, err := c.Reserve(ctx, 1, len(word))
		if err != nil {
			fmt.Println(err)
			return
		}
		copy(buf, word)
		if err := c.Commit(); err != nil {
			fmt.Println(err)
			return
		}
		m, err := c.Recv(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(m.Body))
		c.Release()
	}
	st := c.Stats()
	fmt.Println(st.SentMessages, "sent,", st.RecvMessages, "received")
	c.Close()
	_, err = c.Recv(ctx)
	fmt.Println(err != nil && !errors.Is(err, ipc.ErrPeerGone))
	// Output:
	// ONE
	// LINE
	// CACHE
	// 3 sent, 3 received
	// true
}
