package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Categories of events.
const (
	catMessage    = "message"
	catProgram    = "program"
	catStep       = "step"
	catCompile    = "compile"
	catCollective = "collective"
	catClient     = "client"
	catWait       = "wait"
	catFlow       = "flow"
	catStepMark   = "training step"
	catCall       = "call" // of a rank
)

// Threads of a process in the file.
const (
	threadMessages = 1 // a worker's goroutine, or the client's
	threadParallel = 2 // what runs beside it
)

// arg is an argument of an event: a number, or a text if that is not empty.
type arg struct {
	key  string
	n    uint64
	text string
}

// entry is one event of the format. Times are nanoseconds since the trace began.
type entry struct {
	name, cat string
	phase     byte // of the format, see appendJSON
	at        int64
	took      int64 // of X
	process   int
	thread    int
	id        string // of s, f, b and e
	args      []arg
}

// writer writes events as they come. The zero value of json or log writes no such file.
type writer struct {
	json, log *bufio.Writer
	files     [2]io.Writer // which json and log write to
	max       int64        // bytes of each of them
	wrote     int64        // bytes of json
	logged    int64
	err       error
	last      [2]int64 // times of the last events that json and log were given
	kept      [2]int64 // times until which their files have all
	events    int
	seq       int // of lines
	dropped   uint64
	full      int64    // when the first event was dropped
	missing   [2]int64 // bytes of those that json and log had no room for
	names     []string // of processes, from 1 on
	buf       []byte
}

// room is kept free for the end of a file.
const room = 1 << 10

func newWriter(file, log io.Writer, most int64) *writer {
	w := &writer{max: most, files: [2]io.Writer{file, log}}
	if file != nil {
		w.json = bufio.NewWriterSize(file, 1<<16)
		n, err := w.json.WriteString(opening)
		w.wrote, w.err = int64(n), err
	}
	if log != nil {
		w.log = bufio.NewWriterSize(log, 1<<16)
		n, err := fmt.Fprintln(w.log, "seq time_us event source op shapes bytes took_us details")
		w.logged, w.err = int64(n), errors.Join(w.err, err)
	}
	return w
}

// process begins a process of the file.
func (w *writer) process(name string, threads ...string) int {
	w.names = append(w.names, name)
	n := len(w.names)
	w.put(&entry{name: "process_name", phase: 'M', process: n, args: []arg{{key: "name", text: name}}})
	for i, thread := range threads {
		w.put(&entry{name: "thread_name", phase: 'M', process: n, thread: 1 + i, args: []arg{{key: "name", text: thread}}})
	}
	return n
}

// put writes one event. Events that have no room are counted; metadata always has.
func (w *writer) put(e *entry) {
	if w.err != nil {
		return
	}
	lost := false
	if w.json != nil {
		w.buf = w.buf[:0]
		if w.events > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = appendJSON(append(w.buf, '\n'), e)
		if e.phase != 'M' && w.wrote+int64(len(w.buf)) > w.max-room {
			lost = true
			w.missing[0] += int64(len(w.buf))
		} else {
			w.events++
			w.wrote += int64(len(w.buf))
			w.write(0, w.json, e)
		}
	}
	if w.log != nil && w.err == nil && e.phase != 'M' && e.phase != 's' && e.phase != 'f' && e.phase != 'e' {
		w.buf = w.appendLine(w.buf[:0], e)
		if w.logged+int64(len(w.buf)) > w.max-room {
			lost = true
			w.missing[1] += int64(len(w.buf))
		} else {
			w.seq++
			w.logged += int64(len(w.buf))
			w.write(1, w.log, e)
		}
	}
	if lost {
		if w.dropped == 0 {
			w.full = e.at
		}
		w.dropped++
	}
}

// write writes what buf has of an event to the file of that number.
func (w *writer) write(n int, to *bufio.Writer, e *entry) {
	before := to.Buffered()
	if _, w.err = to.Write(w.buf); w.err != nil {
		return
	}
	if to.Buffered() < before+len(w.buf) { // the file took what lay in the buffer
		w.kept[n] = w.last[n]
	}
	w.last[n] = max(w.last[n], e.at)
}

// keptByAll returns a time until which each file has all.
func (w *writer) keptByAll() int64 {
	kept := int64(math.MaxInt64)
	for n, to := range []*bufio.Writer{w.json, w.log} {
		if to != nil {
			kept = min(kept, w.kept[n])
		}
	}
	return max(kept, 0)
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			q, err := json.Marshal(s)
			if err != nil { // no string has one
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	return append(append(b, s...), '"')
}

// appendMicros appends nanoseconds as microseconds, without rounding.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	f := ns % 1000
	return append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

// appendJSON appends one event. The phases are X for one that takes time, i for an
// instant, C for counters, M for names, s and f for the ends of an arrow, b and e for
// those of an asynchronous event.
func appendJSON(b []byte, e *entry) []byte {
	b = appendText(append(b, `{"name":`...), e.name)
	if e.cat != "" {
		b = appendText(append(b, `,"cat":`...), e.cat)
	}
	b = append(b, `,"ph":"`...)
	b = append(b, e.phase)
	b = appendMicros(append(b, `","ts":`...), e.at)
	if e.phase == 'X' {
		b = appendMicros(append(b, `,"dur":`...), e.took)
	}
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(e.process), 10)
	b = strconv.AppendInt(append(b, `,"tid":`...), int64(e.thread), 10)
	if e.id != "" {
		b = appendText(append(b, `,"id":`...), e.id)
	}
	switch e.phase {
	case 'i':
		b = append(b, `,"s":"p"`...)
	case 'f':
		b = append(b, `,"bp":"e"`...)
	}
	for i, a := range e.args {
		if i == 0 {
			b = append(b, `,"args":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendText(b, a.key), ':')
		if a.text != "" {
			b = appendText(b, a.text)
		} else {
			b = strconv.AppendUint(b, a.n, 10)
		}
	}
	if len(e.args) > 0 {
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendLine appends an event as text: its number, time, kind, process, what it is, its
// shapes, bytes, how long it took, and its other arguments.
func (w *writer) appendLine(b []byte, e *entry) []byte {
	b = strconv.AppendInt(b, int64(w.seq), 10)
	b = appendMicros(append(b, ' '), e.at)
	cat := e.cat
	if cat == "" {
		cat = "counter"
	}
	b = strconv.AppendQuote(append(b, ' '), cat)
	b = strconv.AppendQuote(append(b, ' '), w.names[e.process-1])
	b = append(strconv.AppendQuote(append(b, ' '), e.name), ' ')
	columns := [2]string{"-", "-"}
	for _, a := range e.args {
		switch a.key {
		case "shapes":
			columns[0] = strconv.Quote(a.text)
		case "bytes":
			columns[1] = strconv.FormatUint(a.n, 10)
		}
	}
	b = append(append(append(b, columns[0]...), ' '), columns[1]...)
	b = appendMicros(append(b, ' '), e.took)
	for _, a := range e.args {
		switch {
		case a.key == "bytes", a.key == "shapes":
		case a.text != "":
			b = strconv.AppendQuote(append(append(append(b, ' '), a.key...), '='), a.text)
		default:
			b = strconv.AppendUint(append(append(append(b, ' '), a.key...), '='), a.n, 10)
		}
	}
	return append(b, '\n')
}

// since returns a time of this host's clock as one of the trace.
func since(begin time.Time, ns uint64) int64 { return int64(ns) - begin.UnixNano() }
