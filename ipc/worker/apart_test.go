package worker_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/ipc/worker"
	"github.com/ringside-go/ringside/tensor"
)

// farHandle is what a client on another host calls an upload of n bytes.
func farHandle(n uint64) wire.Handle { return wire.Handle{Segment: 77, Off: 4096, Len: n} }

func farUpload(id uint64, h wire.Handle) wire.Upload {
	return wire.Upload{ID: id, Value: wire.Value{DType: uint8(tensor.U8), Dims: []int64{int64(h.Len)}, Handle: h}}
}

func (f *fixture) data(session uint64, h wire.Handle, off uint64, part []byte) {
	f.Helper()
	f.send(wire.KindData, wire.AppendData(nil, &wire.Data{Session: session, Handle: h, Off: off, Part: part}))
}

// TestFar: an upload comes in parts, is given back with the next answer, and its value is read in parts.
func TestFar(t *testing.T) {
	f := start(t, worker.Options{})
	f.openSession(wire.OpenSession{Session: 1, Apart: true, Name: "s"})
	h := farHandle(1000)
	src := bytes.Repeat([]byte("0123456789"), 100)
	f.data(1, h, 0, src[:300]) // given up, and begun again
	f.data(1, h, 0, src[:100])
	f.data(1, h, 100, src[100:])
	f.batch(&wire.Run{Session: 1, Seq: 1, Base: 100, Uploads: []wire.Upload{farUpload(1, h)}, Fetch: []uint64{1}})
	d := f.answer(wire.CodeOK, "")
	if len(d.Returned) != 1 || d.Returned[0] != h || len(d.Results) != 1 || d.Results[0].Handle.Len != 1000 || d.Results[0].Handle == h {
		t.Fatalf("%+v", d)
	}
	result := d.Results[0].Handle
	for _, at := range [][2]uint64{{0, 600}, {600, 400}, {999, 1}} {
		f.send(wire.KindRead, wire.AppendRead(nil, &wire.Read{Session: 1, Handle: result, Off: at[0], Bytes: uint32(at[1])}))
		var m wire.Data
		if err := wire.ParseData(f.recv(wire.KindData), &m); err != nil || m.Handle != result || m.Off != at[0] || !bytes.Equal(m.Part, src[at[0]:at[0]+at[1]]) {
			t.Errorf("%d bytes at %d: %+v, %v", at[1], at[0], m, err)
		}
	}
	f.batch(&wire.Run{Session: 1, Seq: 2, Base: 100, Flags: wire.RunSync, Returns: []wire.Handle{result}})
	f.answer(wire.CodeOK, "")
	f.send(wire.KindRead, wire.AppendRead(nil, &wire.Read{Session: 1, Handle: result, Bytes: 1}))
	f.failed(1, wire.CodeProtocol, "lease")
	f.healthy(2)
}

// TestFarMistakes: each ends the session, and nothing of it is left.
func TestFarMistakes(t *testing.T) {
	h := farHandle(100)
	part := make([]byte, 50)
	for what, c := range map[string]struct {
		do   func(f *fixture)
		near bool
		text string
	}{
		"shares memory": {func(f *fixture) { f.data(1, h, 0, part) }, true, "shares memory"},
		"reads shared": {func(f *fixture) {
			f.send(wire.KindRead, wire.AppendRead(nil, &wire.Read{Session: 1, Handle: h, Bytes: 1}))
		}, true, "shares memory"},
		"no beginning": {func(f *fixture) { f.data(1, h, 50, part) }, false, "out of turn"},
		"a gap":        {func(f *fixture) { f.data(1, h, 0, part[:10]); f.data(1, h, 11, part[:10]) }, false, "out of turn"},
		"out of order": {func(f *fixture) { f.data(1, h, 0, part); f.data(1, h, 10, part) }, false, "out of turn"},
		"nothing":      {func(f *fixture) { f.data(1, h, 0, nil) }, false, "out of turn"},
		"malformed":    {func(f *fixture) { f.send(wire.KindData, wire.AppendData(nil, &wire.Data{Session: 1})[:20]) }, false, "Data"},
		"half an upload": {func(f *fixture) {
			f.data(1, h, 0, part)
			f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{farUpload(1, h)}})
		}, false, "has not come"},
		"no upload": {func(f *fixture) { f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{farUpload(1, h)}}) }, false, "has not come"},
		"another shape": {func(f *fixture) {
			f.data(1, h, 0, part)
			f.data(1, h, 50, part)
			u := farUpload(1, h)
			u.Dims = []int64{99}
			f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{u}})
		}, false, "100 bytes, expected 99"},
		"an unknown result": {func(f *fixture) {
			f.send(wire.KindRead, wire.AppendRead(nil, &wire.Read{Session: 1, Handle: h, Bytes: 1}))
		}, false, "unknown segment"},
		"no bytes of it": {func(f *fixture) { f.send(wire.KindRead, wire.AppendRead(nil, &wire.Read{Session: 1, Handle: h})) }, false, "0 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, worker.Options{})
			f.openSession(wire.OpenSession{Session: 1, Apart: !c.near, Name: "s"})
			c.do(f)
			f.failed(1, wire.CodeProtocol, c.text)
			if st := f.dev.Arena().Stats(); st.Blocks != 0 {
				t.Errorf("%d blocks are left", st.Blocks)
			}
			f.healthy(2)
		})
	}
}

// TestFarNoMemory: an upload for which there is no memory fails its batch and not the session.
func TestFarNoMemory(t *testing.T) {
	f := start(t, worker.Options{})
	f.openSession(wire.OpenSession{Session: 1, Apart: true, Name: "s"})
	h := farHandle(1 << 62)
	f.data(1, h, 0, make([]byte, 50))
	small := farHandle(3)
	f.data(1, small, 0, []byte("abc"))
	f.batch(&wire.Run{Session: 1, Seq: 1, Flags: wire.RunSync, Uploads: []wire.Upload{farUpload(1, small)}})
	f.answer(wire.CodeOK, "")
	f.data(1, h, 50, make([]byte, 50))
	f.healthy(2)
}
