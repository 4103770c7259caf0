package worker_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

func (f *fixture) saved() *wire.Saved {
	f.Helper()
	m := &wire.Saved{}
	if err := wire.Parse(f.until(wire.KindSaved, wire.KindSaved, 1), m); err != nil {
		f.Fatal(err)
	}
	return m
}

func (f *fixture) file(flag int) *os.File {
	f.Helper()
	file, err := os.OpenFile(filepath.Join(f.TempDir(), "f"), flag|os.O_CREATE, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	return file
}

// TestSave checks that values are written one after another from the offset that the
// client names, with their sums, while another session has turns. An error of a value or
// of the file is the answer.
func TestSave(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	const large = 3<<20 + 5 // f32: three turns
	seg := f.segment(1, 16<<20)
	for i := range seg.Bytes() {
		seg.Bytes()[i] = byte(i * 7)
	}
	f.batch(&wire.Run{Session: 1, Seq: 1, Base: 10, Uploads: []wire.Upload{byHandle(1, seg, 64, large), floats(2, 3, 4), floats(3)}})
	file := f.file(os.O_RDWR)
	f.send(wire.KindSave, wire.Append(nil, &wire.Save{Session: 1, Seq: 8, Bases: []uint64{24}, IDs: []uint64{2, 3, 1, 2}}), file)
	m := f.saved()
	if m.Session != 1 || m.Seq != 8 || m.Rank != 0 || m.Code != wire.CodeOK || len(m.Pieces) != 4 || m.End != 24+8+4*large+8 {
		t.Fatalf("%+v", m)
	}
	all, err := os.ReadFile(file.Name())
	if err != nil || len(all) != int(m.End) {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	for i, at := range [][2]int{{24, 8}, {32, 0}, {32, 4 * large}, {32 + 4*large, 8}} {
		p := m.Pieces[i]
		if p.Index != uint32(i) || p.Sum != sha256.Sum256(all[at[0]:at[0]+at[1]]) || len(p.Start) != 1 || p.Start[0] != 0 || p.Dims[0] != at[1]/4 {
			t.Errorf("piece %d: %+v", i, p)
		}
	}
	if string(all[32:32+4*large]) != string(seg.Bytes()[64:64+4*large]) {
		t.Error("other bytes were written")
	}

	f.send(wire.KindSave, wire.Append(nil, &wire.Save{Session: 1, Seq: 9, Bases: []uint64{0}, IDs: []uint64{2, 99}}), file)
	if m := f.saved(); m.Seq != 9 || m.Code != wire.CodeUnknownID || len(m.Pieces) != 0 {
		t.Errorf("an unknown id: %+v", m)
	}
	f.send(wire.KindSave, wire.Append(nil, &wire.Save{Session: 1, Seq: 10, Bases: []uint64{0}, IDs: []uint64{2}}), f.file(os.O_RDONLY))
	if m := f.saved(); m.Code != wire.CodeEngine || m.Text == "" {
		t.Errorf("a file that cannot be written: %+v", m)
	}
	f.healthy(2)
}

// TestSaveWrong checks that a malformed Save ends its session and no other.
func TestSaveWrong(t *testing.T) {
	f := start(t, worker.Options{})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	file := f.file(os.O_RDWR)
	good := wire.Save{Bases: []uint64{0}, IDs: []uint64{1}}
	for i, c := range []struct {
		m     wire.Save
		files []*os.File
		body  []byte
		want  string
	}{
		{good, nil, nil, "1 places and 0 files, expected 1"},
		{good, []*os.File{file, file}, nil, "1 places and 2 files"},
		{wire.Save{Bases: []uint64{0, 0}}, []*os.File{file}, nil, "2 places and 1 files"},
		{good, []*os.File{write}, nil, "no regular file"},
		{good, []*os.File{file}, []byte{1}, "Save"},
	} {
		id := uint64(10 + 2*i)
		f.open(id, 0)
		c.m.Session = id
		f.send(wire.KindSave, append(wire.Append(nil, &c.m), c.body...), c.files...)
		f.failed(id, wire.CodeProtocol, c.want)
		f.healthy(id + 1)
	}
}

// TestSaveGivenUp checks that a session that ends while it saves leaves nothing.
func TestSaveGivenUp(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.open(2, 0)
	const large = 8 << 20
	seg := f.segment(1, 4*large)
	f.batch(&wire.Run{Session: 1, Seq: 1, Base: 10, Uploads: []wire.Upload{byHandle(1, seg, 0, large)}})
	f.send(wire.KindSave, wire.Append(nil, &wire.Save{Session: 1, Seq: 1, Bases: []uint64{0}, IDs: []uint64{1}}), f.file(os.O_RDWR))
	f.batch(&wire.Run{Session: 2, Seq: 1, Base: 10, Uploads: []wire.Upload{floats(1, 5)}, Flags: wire.RunSync})
	f.until(wire.KindDone, wire.KindSaved, 2) // it need not wait for all of the other's
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 3}))
	f.until(wire.KindSessionOpened, wire.KindSaved, 3)
	// It may be opened while the worker waits for the device, which can't end session 1
	// then. The worker's next message is handled after that.
	f.run[3] = &wire.History{}
	f.batch(&wire.Run{Session: 3, Seq: 1, Base: 10, Uploads: []wire.Upload{floats(1, 5)}, Flags: wire.RunSync})
	f.until(wire.KindDone, wire.KindSaved, 3)
	if n := f.w.Stats().Sessions; n != 2 {
		t.Errorf("%d sessions, expected the two that are open", n)
	}
	f.healthy(4)
}

// until waits for a session's message of one kind, and returns it. Messages of another
// kind are skipped, and on a device that copies uploads the answers that give them back.
func (f *fixture) until(kind, skip uint32, session uint64) []byte {
	f.Helper()
	for {
		m, err := f.conn.Recv(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		body := bytes.Clone(m.Body)
		f.conn.Release()
		of, _ := wire.Session(body)
		switch {
		case m.Kind == kind && of == session:
			return body
		case m.Kind != skip && m.Kind != wire.KindDevice && (m.Kind != wire.KindDone || worker.InPlace()):
			f.Fatalf("%s of session %d, expected %s of session %d", wire.KindName(m.Kind), of, wire.KindName(kind), session)
		}
	}
}
