package crosshost

import (
	"context"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/net/tcp"
)

// BenchmarkAllReduce is between goroutines over loopback TCP.
func BenchmarkAllReduce(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, size := range []int{4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%dranks/%dB", n, size), func(b *testing.B) {
				conns, waiters := tcpMesh(b, n, tcp.New())
				comms := world(b, conns, waiters, Options{})
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for r, err := range all(b, n, func(_ context.Context, r int) error {
					buf := make([]byte, size)
					call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: int64(size / 4), Seq: 1}
					if err := comms[r].AllReduce(context.Background(), call, 1, buf, buf); err != nil {
						return err
					}
					if r == 0 {
						b.ResetTimer()
					}
					for range b.N {
						call.Seq++
						if err := comms[r].AllReduce(context.Background(), call, 1, buf, buf); err != nil {
							return err
						}
					}
					return nil
				}) {
					if err != nil {
						b.Fatalf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}
