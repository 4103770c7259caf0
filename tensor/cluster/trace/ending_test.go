package trace

import (
	"bufio"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// full is a file that has room for so many bytes.
type full struct {
	strings.Builder
	room int
}

func (f *full) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.room {
		return 0, &fs.PathError{Op: "write", Path: "a\nb", Err: syscall.ENOSPC}
	}
	return f.Builder.Write(b)
}

// TestKeptByAll fills the disk of the JSON file, while the log takes every line at once:
// the time until which both have all events is the JSON file's. The log names that file
// on its last line.
func TestKeptByAll(t *testing.T) {
	file, log := &full{room: 1 << 16}, &strings.Builder{}
	w := newWriter(file, log, 1<<30)
	w.log = bufio.NewWriterSize(log, 16)
	w.names = []string{"a process"}
	n := int64(0)
	for ; w.err == nil; n++ {
		w.put(&entry{name: "event", phase: 'i', at: n, process: 1})
	}
	if there := int64(strings.Count(file.String(), ",\n")); w.keptByAll() != there || there == 0 || there >= n-1 {
		t.Errorf("all events until %d, expected %d, as many as the file of %d has", w.keptByAll(), there, n)
	}
	if err := w.end(0); err == nil {
		t.Error("no error")
	}
	const want = "\n# the events from here on are missing: write \"a\\nb\": no space left on device\n"
	if text := log.String(); !strings.HasSuffix(text, want) {
		t.Errorf("the log ends %q, expected %q", text[max(0, len(text)-200):], want)
	}
}
