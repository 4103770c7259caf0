package dispatcher_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// BenchmarkIdleClients measures a question to a dispatcher and its answer, beside clients
// that are connected and say nothing. It also prints the processor time of the dispatcher
// and its peers while nothing is asked.
func BenchmarkIdleClients(b *testing.B) {
	for _, idle := range []int{0, 64, 512} {
		b.Run(fmt.Sprint(idle), func(b *testing.B) {
			dir, err := os.MkdirTemp("", "rs")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			d, err := dispatcher.New(nil)
			if err != nil {
				b.Fatal(err)
			}
			l, err := local.New().Listen(filepath.Join(dir, "d"), d.ListenOptions())
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			end := make(chan error, 1)
			go func() { end <- d.Serve(ctx, l) }()
			defer func() {
				stop()
				<-end
			}()
			dial := func(role ipc.Role) ipc.Conn {
				c, err := local.New().Dial(ctx, l.Addr(), &ipc.Options{Hello: ipc.Peer{Role: role}})
				if err != nil {
					b.Fatal(err)
				}
				return c
			}
			for range idle {
				defer dial(ipc.RoleClient).Close()
			}
			c := dial(ipc.RoleControl)
			defer c.Close()
			ask := ipc.Message{Kind: wire.KindStatus, Body: wire.Append(nil, &wire.Status{})}
			question := func() {
				if err := ipc.Send(ctx, c, ask); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Recv(ctx); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
			question()
			began, used := time.Now(), processorTime(b)
			<-time.After(time.Second)
			idleUse := float64(processorTime(b)-used) / float64(time.Since(began))
			for b.Loop() {
				question()
			}
			b.ReportMetric(100*idleUse, "%-idle-cpu")
		})
	}
}

// processorTime returns what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
