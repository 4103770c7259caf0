package ipctest

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// needFiles ends the test of a transport without files, after a look at its error.
func (f *fixture) needFiles(c ipc.Conn) {
	f.t.Helper()
	if !f.NoFiles {
		return
	}
	r, w, err := os.Pipe()
	f.must(err)
	defer r.Close()
	defer w.Close()
	f.is("Commit with a file", f.sendFiles(c, 1, 1, r), ipc.ErrFilesUnsupported)
	f.t.Skip("the transport takes no files")
}

// sendFiles sends a message with files, made by pattern, and returns Commit's error.
func (f *fixture) sendFiles(c ipc.Conn, kind uint32, n int, files ...*os.File) error {
	buf, err := c.Reserve(f.ctx, kind, n)
	if err != nil {
		return err
	}
	pattern(buf, kind)
	return c.Commit(files...)
}

// testFiles sends pipes' ends and talks through them.
func testFiles(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	f.needFiles(a)
	for n := 1; n <= ipc.MaxFiles; n++ {
		var readers, writers []*os.File
		for range n {
			r, w, err := os.Pipe()
			f.must(err)
			readers, writers = append(readers, r), append(writers, w)
		}
		f.must(f.sendFiles(a, uint32(n), 3, writers...))
		ipc.ClosePassed(writers) // the copies that the peer gets stay open
		m, err := b.Recv(f.ctx)
		f.must(err)
		if m.Kind != uint32(n) || len(m.Body) != 3 || len(m.Files) != n {
			t.Fatalf("message %d of %d bytes with %d files, expected %d, 3, %d", m.Kind, len(m.Body), len(m.Files), n, n)
		}
		for i, w := range m.Files {
			_, err := fmt.Fprintf(w, "file %d of %d", i, n)
			f.must(err)
			f.must(w.Close())
		}
		b.Release()
		for i, r := range readers {
			got, err := io.ReadAll(r) // ends when every writer is closed: no copy is left
			f.must(err)
			if want := fmt.Sprintf("file %d of %d", i, n); string(got) != want {
				t.Errorf("read %q, expected %q", got, want)
			}
			r.Close()
		}
	}
	if s, r := a.Stats().SentFiles, b.Stats().RecvFiles; s != ipc.MaxFiles*(ipc.MaxFiles+1)/2 || r != s {
		t.Errorf("%d files sent, %d received", s, r)
	}

	null, err := os.Open(os.DevNull)
	f.must(err)
	defer null.Close()
	tooMany := make([]*os.File, ipc.MaxFiles+1)
	for i := range tooMany {
		tooMany[i] = null
	}
	f.is("Commit with too many files", f.sendFiles(a, 1, 1, tooMany...), ipc.ErrTooManyFiles)
	f.send(a, 5, 10) // and nothing of that message was sent
	f.expect(b, 5, 10)
}

// testFilesMixed: files stay with their messages among many without.
func testFilesMixed(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	f.needFiles(a)
	dir := t.TempDir()
	var named []*os.File
	for i := range 3 {
		file, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
		f.must(err)
		defer file.Close()
		_, err = file.WriteString(fmt.Sprint(i))
		f.must(err)
		named = append(named, file)
	}
	const n = 600
	wait := spawn(func() error {
		for i := range n {
			var err error
			if i%5 != 0 {
				err = send(f.ctx, a, uint32(i), i%200)
			} else {
				err = f.sendFiles(a, uint32(i), 16, named[i%3])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := range n {
		if i%5 != 0 {
			f.expect(b, uint32(i), i%200)
			continue
		}
		m, err := b.Recv(f.ctx)
		f.must(err)
		if m.Kind != uint32(i) || len(m.Files) != 1 {
			t.Fatalf("message %d with %d files, expected %d with 1", m.Kind, len(m.Files), i)
		}
		f.must(checkPattern(m.Body, m.Kind))
		b.Release()
		var got [1]byte
		_, err = m.Files[0].ReadAt(got[:], 0)
		f.must(err)
		if want := byte('0' + i%3); got[0] != want {
			t.Errorf("message %d came with file %q, expected %q", i, got[0], want)
		}
		m.Files[0].Close()
	}
	f.must(wait())
}

// testFilesUnread: files that are not received are closed with the conn.
func testFilesUnread(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	f.needFiles(a)
	r, w, err := os.Pipe()
	f.must(err)
	defer r.Close()
	for range 3 {
		f.must(f.sendFiles(a, 1, 1, w))
	}
	f.must(w.Close())
	m, err := b.Recv(f.ctx) // one of the three; the others are on their way or waiting
	f.must(err)
	ipc.CloseFiles(m.Files)
	b.Release()
	f.must(b.Close())
	f.must(a.Close())
	if _, err := io.ReadAll(r); err != nil { // hangs while a descriptor is open somewhere
		t.Error(err)
	}
}

// testFilesAhead: a sender of files is held back before it fills a receiver that reads
// nothing with descriptors, though there is room for more messages. A Reserve that waits
// for that continues when one is released.
func testFilesAhead(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	f.needFiles(a)
	null, err := os.Open(os.DevNull)
	f.must(err)
	defer null.Close()
	sendOne := func() error {
		_, err := a.TryReserve(1, 0)
		if err == nil {
			err = a.Commit(null)
		}
		return err
	}
	take := func() {
		t.Helper()
		m, err := b.Recv(f.ctx)
		f.must(err)
		if len(m.Files) != 1 {
			t.Fatalf("%d files, expected 1", len(m.Files))
		}
		ipc.CloseFiles(m.Files)
		b.Release()
	}
	for range 3 {
		for range ipc.MaxFilesAhead {
			f.must(sendOne())
		}
		if err := sendOne(); err != ipc.ErrFull {
			t.Fatalf("with %d messages with files unread, the next: %v, expected ErrFull", ipc.MaxFilesAhead, err)
		}
		if _, err := a.TryReserve(1, 0); err != ipc.ErrFull {
			t.Fatalf("one without files: %v, expected ErrFull", err)
		}
		wait := spawn(func() error { return send(f.ctx, a, 2, 0) })
		for range ipc.MaxFilesAhead {
			take()
		}
		f.must(wait())
		f.expect(b, 2, 0)
		// a receiver may say what it has released when it looks again
		if _, ok, err := b.TryRecv(); ok || err != nil {
			t.Fatalf("something is left: %v, %v", ok, err)
		}
	}
	if s := a.Stats(); s.Full == 0 || s.SentFiles != 3*ipc.MaxFilesAhead {
		t.Errorf("%d times full, %d files sent", s.Full, s.SentFiles)
	}
}
