package kernel

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// TestFolderOrder: groups are of ranks in the given order, and the bits show it.
func TestFolderOrder(t *testing.T) {
	src := func(x float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)) }
	srcs := [][]byte{src(1), src(1e8), src(1), src(-1e8)}
	call := &protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Scale: 1}
	for _, c := range []struct {
		fold  protocol.Fold
		order []int
		want  float32
	}{
		{nil, nil, 0},                                  // ((1+1e8)+1)-1e8
		{protocol.Fold{2, 2}, nil, 0},                  // (1+1e8)+(1-1e8)
		{protocol.Fold{2, 2}, []int{0, 2, 1, 3}, 2},    // (1+1)+(1e8-1e8)
		{nil, []int{1, 3, 0, 2}, 2},                    // ((1e8-1e8)+1)+1
		{protocol.Fold{4}, []int{1, 3, 0, 2}, 2},       // ((1e8-1e8)+1)+1
		{protocol.Fold{1, 1, 2}, []int{1, 3, 0, 2}, 2}, // (1e8-1e8)+(1+1)
	} {
		f, err := NewFolder(Best(), c.fold, c.order, len(srcs))
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 4)
		f.Fold(call, [][]byte{dst}, srcs)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(dst)); got != c.want {
			t.Errorf("fold %v in order %v: %v, expected %v", c.fold, c.order, got, c.want)
		}
	}
	for _, order := range [][]int{{0, 1}, {0, 1, 1}, {0, 1, 3}, {-1, 1, 2}, {}} {
		if _, err := NewFolder(Best(), nil, order, 3); !errors.Is(err, protocol.ErrBadCall) {
			t.Errorf("order %v of 3 ranks: %v", order, err)
		}
	}
}
