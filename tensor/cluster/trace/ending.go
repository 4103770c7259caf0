package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

// end makes the files whole. A file says so if it, or the other before its own end, could
// not be written.
func (w *writer) end(lost uint64) error {
	if w.json != nil {
		w.finish(0, w.json, ",\n", "", func(cut string) string {
			if cut != "" {
				cut = `,"cut":` + string(appendText(nil, cut))
			}
			return fmt.Sprintf("\n],\"otherData\":{\"events_dropped\":%d,\"events_lost\":%d%s}}\n", w.dropped, lost, cut)
		})
	}
	if w.log != nil {
		w.finish(1, w.log, "\n", "\n", func(cut string) (text string) {
			if w.dropped+lost > 0 {
				text = fmt.Sprintf("# %d events had no room here or in the trace, %d were lost before\n", w.dropped, lost)
			}
			if cut != "" {
				text += fmt.Sprintf("# the events from here on are missing: %s\n", cut)
			}
			return text
		})
	}
	return w.err
}

// finish writes the end of the file of that number. If the file takes no more, the end
// replaces its last events, from a separator on, which begin is to follow.
func (w *writer) finish(n int, to *bufio.Writer, separator, begin string, ending func(cut string) string) {
	cut := ""
	if w.err != nil {
		cut = plain.Path(w.err).Error()
	}
	_, err := to.WriteString(ending(cut))
	if err = cmp.Or(err, to.Flush()); err != nil {
		w.err = cmp.Or(w.err, err)
		curtail(w.files[n], separator, begin+ending(plain.Path(w.err).Error()))
		return
	}
	w.kept[n] = w.last[n]
}

// curtailable is a file of which the last bytes can be replaced.
type curtailable interface {
	io.Seeker
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

// longestTail bounds the bytes in which curtail looks for a separator.
const longestTail = 1 << 16

// curtail writes the ending over the last bytes of a file, from the last separator on
// that leaves enough of them: where a disk is full, these bytes have room. The file stays
// as it is if it is no such file, or has no separator there.
func curtail(file io.Writer, separator, ending string) {
	f, ok := file.(curtailable)
	if !ok {
		return
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	tail := make([]byte, min(size, longestTail))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return
	}
	enough := max(0, len(tail)-len(ending)+len(separator))
	i := strings.LastIndex(string(tail[:min(enough, len(tail))]), separator)
	if i < 0 {
		return
	}
	at := size - int64(len(tail)-i)
	if _, err := f.WriteAt([]byte(ending), at); err != nil {
		return
	}
	_ = f.Truncate(at + int64(len(ending)))
}
