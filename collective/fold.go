package collective

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Fold combines buffers of one process as a reduction between ranks combines theirs:
// element i of dst becomes element i of every src folded by op in order, times scale,
// with the same bits. All buffers hold elements of dt and have one length. Integers are
// not scaled: scale is 1. The error wraps protocol.ErrBadCall.
func Fold(op element.Reduction, dt element.DType, scale float64, dst []byte, srcs ...[]byte) error {
	if len(srcs) == 0 {
		return fmt.Errorf("%w: a fold of no buffers", protocol.ErrBadCall)
	}
	if err := kernel.CheckFold(op, dt, scale, len(dst)); err != nil {
		return err
	}
	for i, s := range srcs {
		if len(s) != len(dst) {
			return fmt.Errorf("%w: source %d has %d bytes, the destination %d", protocol.ErrBadCall, i, len(s), len(dst))
		}
	}
	kernel.Reduce(op, dt, scale, [][]byte{dst}, srcs)
	return nil
}
