package cluster_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestClosedAmidARead closes the engine while a value is read: the worker may use the
// memory for something else then, so the reader gets ErrClosed and no value.
func TestClosedAmidARead(t *testing.T) {
	c := start(t, cluster.Options{Workers: 2})
	for _, workers := range []int{1, 2} {
		for name, read := range map[string]func(x *tensor.Tensor, amid func()) error{
			"View": func(x *tensor.Tensor, amid func()) error {
				return tensor.View(x, func([]int64) error { amid(); return nil })
			},
			"an error of the reader": func(x *tensor.Tensor, amid func()) error {
				return x.ViewBytes(func([]byte) error { amid(); return errors.New("it makes no sense") })
			},
		} {
			e := dial(t, c, &client.Options{Workers: workers})
			x := tensor.Full(tensor.NewSession(e, nil), tensor.I64, 7, 1000)
			if err := read(x, func() {}); errors.Is(err, tensor.ErrClosed) {
				t.Errorf("%s of %d workers before Close: %v", name, workers, err)
			}
			x.Session().ClearErr()
			if err := read(x, func() { e.Close() }); !errors.Is(err, tensor.ErrClosed) {
				t.Errorf("%s of %d workers amid Close: %v, expected ErrClosed", name, workers, err)
			}
			if _, err := tensor.Data[int64](x); !errors.Is(err, tensor.ErrClosed) {
				t.Error(fmt.Errorf("%s of %d workers behind Close: %w, expected ErrClosed", name, workers, err))
			}
		}
	}
}
