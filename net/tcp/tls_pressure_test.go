package tcp

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// TestPressure checks that a conn whose socket takes less than a batch of frames at once
// brings all messages: the peer releases some of a batch before the kernel has taken all
// of it.
func TestPressure(t *testing.T) {
	for name, tls := range map[string]*ipc.TLS{"plain": nil, "TLS": {}} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			o := &ipc.Options{Secret: []byte("a secret of more than 16 bytes"), TLS: tls, RingBytes: 1 << 18}
			l, err := New().Listen("127.0.0.1:0", o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			d, err := New().Dial(ctx, l.Addr(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			a, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := unix.SetsockoptInt(d.(*conn).sock.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 32<<10); err != nil {
				t.Fatal(err)
			}
			const n = 5000
			done := make(chan error, 1)
			go func() {
				for range n {
					if _, err := a.Recv(ctx); err != nil {
						done <- err
						return
					}
					a.Release()
				}
				done <- nil
			}()
			for i := range n {
				_, err := d.Reserve(ctx, 1, 4000)
				if err == nil {
					err = d.Commit()
				}
				if err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
