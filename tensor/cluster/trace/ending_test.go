package trace

import (
	"bufio"
	"encoding/json"
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

// TestKeptByAll fills the disk of the JSON file, while the log takes every line at once,
// or all of them at the end: the time until which both have all events is the JSON
// file's, wherever in an event its buffer is full. The log names that file on its last
// line.
func TestKeptByAll(t *testing.T) {
	for longer := range 80 {
		for _, buffer := range []int{16, 1 << 20} {
			keptByAll(t, "event"+strings.Repeat("t", longer), buffer)
		}
	}
}

func keptByAll(t *testing.T, name string, buffer int) {
	t.Helper()
	file, log := &full{room: 1 << 16}, &strings.Builder{}
	w := newWriter(file, log, 1<<30)
	w.log = bufio.NewWriterSize(log, buffer)
	w.names = []string{"a process"}
	begun := int64(0)
	for ; w.err == nil; begun++ {
		w.put(&entry{name: name, phase: 'i', at: begun, process: 1})
	}
	events := strings.Split(strings.TrimPrefix(file.String(), opening), ",\n")
	there := int64(len(events) - 1)
	if !json.Valid([]byte(events[there])) {
		there--
	}
	if err := w.end(0); err == nil {
		t.Error("no error")
	}
	if w.keptByAll() != there || there == 0 || there >= begun-1 {
		t.Errorf("%s: all events until %d, expected %d, as many as the file of %d has", name, w.keptByAll(), there, begun)
	}
	const want = "\n# the events from here on are missing: write \"a\\nb\": no space left on device\n"
	if text := log.String(); !strings.HasSuffix(text, want) {
		t.Errorf("the log ends %q, expected %q", text[max(0, len(text)-200):], want)
	}
}
