package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor/device"
)

// roundingBytes is how much of what the bits depend on the workers compare.
const roundingBytes = 192

// errRounding is returned where the workers of a session would compute other bits.
var errRounding = errors.New("workers of one session would compute different bits")

// rounding returns what the bits of a device depend on.
func rounding(d device.Device) string {
	r, ok := d.(device.Rounder)
	if !ok {
		return ""
	}
	return r.Rounding()
}

// sameRounding checks that the devices of a group round alike: values that several of its
// workers compute have the same bits then. All members call it.
func (t *team) sameRounding(ctx context.Context, g *collective.Group) error {
	mine := make([]byte, roundingBytes)
	copy(mine, rounding(t.worker.dev))
	all, err := meetIn(g.Size(), func(r *collective.Raw) error { return r.Do(ctx, g) })(mine)
	if err != nil {
		return err
	}
	for i, b := range all {
		if bytes.Equal(b, mine) {
			continue
		}
		own, other := bytes.TrimRight(mine, "\x00"), bytes.TrimRight(b, "\x00")
		return fmt.Errorf("%w: member %d has %q, this one %q; use the same libraries on GPUs of one kind, or start all with RINGSIDE_CUBLAS=off and without --collectives nccl",
			errRounding, i, cmp.Or(string(other), "kernels of its own"), cmp.Or(string(own), "kernels of its own"))
	}
	return nil
}
