package worker_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// TestHandedOver checks that a result which a client was given stays as it is when the
// worker ends, for any reason: the worker cannot tell the client in time not to read it.
func TestHandedOver(t *testing.T) {
	for what, end := range map[string]func(f *fixture){
		"dispatcher gone": func(f *fixture) { f.conn.Close() },
		"stopped":         func(f *fixture) { f.stop(errors.New("enough")) },
	} {
		f := start(t, worker.Options{})
		f.open(1, 0)
		p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
		f.body(1, p)
		f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Base: 100, Uploads: []wire.Upload{floats(1, 5, 6)},
			Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{100}})
		table := shm.NewTable(nil)
		defer table.Close()
		var done wire.Done
		for done.Results == nil {
			m, err := f.conn.Recv(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			switch m.Kind {
			case wire.KindSegment:
				var seg wire.Segment
				if err := errors.Join(wire.Parse(m.Body, &seg), table.Add(0, seg.ID, m.Files[0], int64(seg.Bytes))); err != nil {
					t.Fatal(err)
				}
			case wire.KindDone:
				if err := wire.Parse(m.Body, &done); err != nil {
					t.Fatal(err)
				}
			}
			f.conn.Release()
		}
		mem, err := table.Resolve(0, done.Results[0].Handle)
		if err != nil {
			t.Fatal(err)
		}
		end(f)
		f.end <- <-f.end // it has ended
		if got := math.Float32frombits(binary.LittleEndian.Uint32(mem)); got != 6 {
			t.Errorf("%s: the result is now %v", what, got)
		}
	}
}
