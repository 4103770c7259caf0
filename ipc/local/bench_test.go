package local_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// helperEchoUnix is helperEcho over a unix stream socket, in messages of 64 bytes.
func helperEchoUnix(_ context.Context, args []string) error {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	var buf [64]byte
	for {
		if _, err := io.ReadFull(c, buf[:]); err != nil {
			return nil // the test is over
		}
		if _, err := c.Write(buf[:]); err != nil {
			return err
		}
	}
}

func roundTrip(b *testing.B, ctx context.Context, c ipc.Conn, n int) {
	buf, err := c.Reserve(ctx, 1, n)
	if err != nil {
		b.Fatal(err)
	}
	for i := range buf {
		buf[i] = byte(i)
	}
	if err := c.Commit(); err != nil {
		b.Fatal(err)
	}
	m, err := c.Recv(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if len(m.Body) != n {
		b.Fatalf("%d bytes, expected %d", len(m.Body), n)
	}
	c.Release()
}

// BenchmarkRoundTrip is a message there and back between two processes. "waiter" is with
// a Waiter that was given and a context that can be cancelled, as a dispatcher has them;
// "unix" is the same over a unix stream socket.
func BenchmarkRoundTrip(b *testing.B) {
	for _, n := range []int{64, 4096} {
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			ctx := context.Background()
			l, path := listen(b, nil)
			start(b, "echo", path)
			c := accept(b, ctx, l)
			roundTrip(b, ctx, c, n)
			b.ReportAllocs()
			for b.Loop() {
				roundTrip(b, ctx, c, n)
			}
		})
	}
	b.Run("waiter/64", func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w, err := local.NewWaiter()
		if err != nil {
			b.Fatal(err)
		}
		l, path := listen(b, &ipc.Options{Waiter: w})
		start(b, "echo", path)
		c := accept(b, ctx, l)
		roundTrip(b, ctx, c, 64)
		b.ReportAllocs()
		for b.Loop() {
			roundTrip(b, ctx, c, 64)
		}
	})
	b.Run("unix/64", func(b *testing.B) {
		path := filepath.Join(socketDir(b), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		start(b, "echo-unix", path)
		c, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		var buf [64]byte
		for b.Loop() {
			if _, err := c.Write(buf[:]); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStream is messages one way to another goroutine of this process.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{64, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			l, path := listen(b, nil)
			c, err := local.New().Dial(ctx, path, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			in := accept(b, ctx, l)
			done := make(chan error)
			go func() {
				for {
					if _, err := in.Recv(ctx); err != nil {
						done <- err
						return
					}
					in.Release()
				}
			}()
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := c.Reserve(ctx, 1, n); err != nil {
					b.Fatal(err)
				}
				if err := c.Commit(); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			<-done
		})
	}
}

// BenchmarkEmpty is a look at a conn that has nothing.
func BenchmarkEmpty(b *testing.B) {
	ctx := context.Background()
	l, path := listen(b, nil)
	c, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := accept(b, ctx, l)
	for b.Loop() {
		if _, ok, err := in.TryRecv(); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkDial is a conn made and closed.
func BenchmarkDial(b *testing.B) {
	ctx := context.Background()
	l, path := listen(b, nil)
	for b.Loop() {
		c, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			b.Fatal(err)
		}
		in, err := l.Accept(ctx)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
		in.Close()
	}
}
