package worker_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

const (
	fuzzMemory   = 32 << 20 // of all values, and of what programs need
	fuzzQuota    = 8 << 20  // of a session's values
	fuzzMessages = 24       // of a session

	// fuzzAlloc is what the heap may be asked for by one session: each message may be a
	// part of a program of at most wire.MaxProgram bytes.
	fuzzAlloc = fuzzMessages * (wire.MaxProgram + 1<<20)
)

// serveFuzzed returns a worker with little memory, and the dispatcher's end of its
// connection.
func serveFuzzed(f *testing.F) (*worker.Worker, device.Device, ipc.Conn) {
	f.Helper()
	var net ipctest.Network
	l, err := net.Listen("pipe:", nil)
	if err != nil {
		f.Fatal(err)
	}
	dev := worker.NewTestDevice(f, cpu.Options{MaxBytes: fuzzMemory, Arena: worker.Checked()})
	w, err := worker.New(&worker.Options{Name: "w", Transport: &net, Device: dev, Quota: fuzzQuota, MaxMapped: 4 << 20})
	if err != nil {
		f.Fatal(err)
	}
	serve, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(serve, l.Addr()) }()
	conn, err := l.Accept(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if m, err := conn.Recv(f.Context()); err != nil || m.Kind != wire.KindDevice {
		f.Fatalf("the worker's first message is %s, %v", wire.KindName(m.Kind), err)
	}
	conn.Release()
	f.Cleanup(func() {
		stop()
		<-ended
	})
	return w, dev, conn
}

// FuzzSession has a client send anything to a worker: messages of any kind, length and
// body, or the messages of a proper client with some bytes changed, while it writes to
// its memory. Another session of the worker must not notice.
func FuzzSession(f *testing.F) {
	w, dev, conn := serveFuzzed(f)
	seg, err := shm.Create(1<<16, &shm.Options{Backing: shm.Memfd, PeersRead: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { seg.Close() })

	proper, known, encoded := properMessages(f, seg)
	for i := range proper {
		f.Add([]byte{byte(i), 0})
	}
	var all []byte
	for i := range proper {
		all = append(all, byte(i), 0)
	}
	f.Add(all)
	f.Add([]byte{100, byte(wire.KindRun), 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Add([]byte{0, 0, 1, 0, 2, 1, 30, 255, 2, 2, 40, 1, 41, 1})
	last := uint64(0)
	f.Fuzz(func(t *testing.T, script []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		last += 2
		bad, good := last, last+1
		fx := &fixture{T: t, ctx: ctx, w: w, dev: dev, conn: conn, run: map[uint64]*wire.History{}}
		fx.open(bad, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		hash := known
		for n := 0; n < fuzzMessages && len(script) >= 2; n++ {
			var m raw
			if i := int(script[0]); i < len(proper) {
				m = raw{proper[i].kind, bytes.Clone(proper[i].body), proper[i].file}
				changes := min(int(script[1])%8, (len(script)-2)/2)
				for c := range changes {
					m.body[int(script[2+2*c])%len(m.body)] ^= script[3+2*c]
					seg.Bytes()[int(script[2+2*c])<<8] = script[3+2*c]
				}
				script = script[2+2*changes:]
				// A changed program is still sent under its own hash, and run by that.
				if at := len(m.body) - encoded; m.kind == wire.KindBody {
					hash = wire.Hash(tensor.HashOf(m.body[at:]))
				}
				m.body = bytes.Replace(m.body, known[:], hash[:], 1)
			} else if len(script) >= 3 {
				k := min(int(script[2]), len(script)-3)
				m = raw{uint32(script[1]), append(make([]byte, wire.SessionBytes), script[3:3+k]...), false}
				script = script[3+k:]
			} else {
				break
			}
			switch m.kind {
			case wire.KindOpenSession, wire.KindCloseSession, wire.KindFail, wire.KindWatch, wire.KindShow, wire.KindStop:
				continue // the dispatcher's own, or parsed by it
			}
			wire.SetSession(m.body, bad)
			if m.file {
				fx.send(m.kind, m.body, seg.File())
			} else {
				fx.send(m.kind, m.body)
			}
		}
		fx.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: bad}))
		fx.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: good}))
		for opened := false; !opened; {
			m, err := conn.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			opened = m.Kind == wire.KindSessionOpened
			for _, file := range m.Files {
				file.Close()
			}
			conn.Release()
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > fuzzAlloc {
			t.Errorf("%d bytes allocated", n)
		}
		if st := dev.Arena().Stats(); st.Leases != 0 || st.Blocks > 1 {
			t.Errorf("%d leases and %d blocks are left", st.Leases, st.Blocks)
		}
		fx.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: good}))
	})
}

// raw is a message before it is sent.
type raw struct {
	kind uint32
	body []byte
	file bool // a segment's comes along
}

// properMessages returns the messages of a client's first steps, the hash of its program
// and the length of its encoding.
func properMessages(f *testing.F, seg *shm.Segment) (all []raw, hash wire.Hash, encoded int) {
	p := (&recorder{}).program(f, false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1).Mul(x).Sum() })
	up := wire.Upload{ID: 1, Value: wire.Value{DType: uint8(tensor.F32), Dims: []int{2},
		Handle: wire.Handle{Segment: seg.ID(), Off: 64, Len: 8}}}
	first := &wire.Run{Seq: 1, Hash: p.hash, Base: 100, Uploads: []wire.Upload{up}, Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{102}}
	again := &wire.Run{Seq: 2, Flags: wire.RunSync, Hash: p.hash, Base: 200, Inputs: []uint64{1}, Scalars: []float64{2}, Frees: []uint64{102}}
	all = []raw{
		{wire.KindSegment, wire.Append(nil, &wire.Segment{ID: seg.ID(), Bytes: uint64(seg.Size())}), true},
		{wire.KindBody, wire.Append(nil, &wire.Body{Hash: p.hash, Total: uint32(len(p.encoded)), Part: p.encoded}), false},
		{wire.KindRun, wire.AppendRun(nil, first, nil), false},
		{wire.KindRun, wire.AppendRun(nil, again, nil), false},
		{wire.KindRun, wire.AppendRun(nil, &wire.Run{Seq: 3, Uploads: []wire.Upload{floats(7, 1, 2, 3)}, Fetch: []uint64{7}}, nil), false},
	}
	return all, p.hash, len(p.encoded)
}
