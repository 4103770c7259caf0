package ipctest

import (
	"context"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// Fixture is a transport as the suite needs it.
type Fixture struct {
	Transport ipc.Transport

	// Addr returns an address to listen at, another one each time.
	Addr func() string

	// NewWaiter makes a Waiter that the transport takes. nil: ipc.NewWaiter.
	NewWaiter func() (ipc.Waiter, error)

	// NoFiles and Bulk are the ipc.Features that the conns must have: no Files, and Bulk.
	NoFiles, Bulk bool
}

// timeout ends a test that hangs, with an error from the call that hangs.
const timeout = 30 * time.Second

// Run checks everything that package ipc promises, in subtests. open is called once for
// each and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, f *fixture)
	}{
		{"Hello", testHello},
		{"Order", testOrder},
		{"Sizes", testSizes},
		{"TooLarge", testTooLarge},
		{"Wrap", testWrap},
		{"Abort", testAbort},
		{"Misuse", testMisuse},
		{"Stats", testStats},
		{"Full", testFull},
		{"FullWaiter", testFullWaiter},
		{"ManyConns", testManyConns},
		{"ManyConnsStream", testManyConnsStream},
		{"Files", testFiles},
		{"FilesMixed", testFilesMixed},
		{"FilesUnread", testFilesUnread},
		{"FilesAhead", testFilesAhead},
		{"CloseDelivers", testCloseDelivers},
		{"CloseUnblocks", testCloseUnblocks},
		{"PeerCloseUnblocks", testPeerCloseUnblocks},
		{"CloseConcurrently", testCloseConcurrently},
		{"CloseIsFinal", testCloseIsFinal},
		{"CloseHolding", testCloseHolding},
		{"Cancel", testCancel},
		{"Deadline", testDeadline},
		{"WaiterWake", testWaiterWake},
		{"WaiterPark", testWaiterPark},
		{"Listener", testListener},
		{"ListenerCloses", testListenerCloses},
		{"ListenAny", testListenAny},
		{"Backlog", testBacklog},
		{"AddrInUse", testAddrInUse},
		{"NoListener", testNoListener},
		{"Version", testVersion},
		{"Options", testOptions},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fixture{Fixture: open(t), t: t}
			var cancel context.CancelFunc
			f.ctx, cancel = context.WithTimeout(context.Background(), timeout)
			defer cancel()
			c.test(t, f)
		})
	}
}
