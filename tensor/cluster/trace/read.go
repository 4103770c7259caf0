package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// ErrFile is the error of a file that is no trace, or one that a viewer would not draw.
var ErrFile = errors.New("trace: the file is no trace of ringside")

// maxEvents bounds the events that Parse keeps.
const maxEvents = 1 << 24

// Event is one event of a file. Times are microseconds.
type Event struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	TS    float64        `json:"ts"`
	Dur   *float64       `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Scope string         `json:"s,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// end is when an event is over.
func (e *Event) end() float64 {
	if e.Dur == nil {
		return e.TS
	}
	return e.TS + *e.Dur
}

// key names an asynchronous event, of which one event is the beginning and one the end.
func (e *Event) key() string { return fmt.Sprint(e.PID, " ", e.Cat, " ", e.ID) }

// number is an argument that is a number of at least 0; 0 if there is none.
func (e *Event) number(key string) float64 {
	n, _ := e.Args[key].(float64)
	return max(n, 0)
}

// File is what a file has.
type File struct {
	Events    []Event
	Processes map[int]string // names by number
	Dropped   uint64         // events that had no room in the file
	Lost      uint64         // events that were lost before
	Cut       bool           // the last events are missing
	CutBy     string         // why, if the file says it
}

// Parse reads a file and checks that it is one that viewers draw. A file whose end is
// missing, since its writer was killed or writes yet, has the events before.
func Parse(r io.Reader) (*File, error) {
	f := &File{Processes: map[int]string{}}
	if err := f.read(r); err != nil {
		atEnd := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
		f.Cut = atEnd && !errors.Is(err, ErrFile) && len(f.Events) > 0
		switch {
		case f.Cut:
		case errors.Is(err, ErrFile):
			return nil, err
		case atEnd:
			return nil, fmt.Errorf("%w: it ends after %d events", ErrFile, len(f.Events))
		default:
			return nil, fmt.Errorf("%w: after %d events: %w", ErrFile, len(f.Events), err)
		}
	}
	return f, f.check()
}

// input is the part of a file that is read as any JSON.
type input struct {
	*json.Decoder
	before int64 // bytes of the file that the decoder does not see
}

func (f *File) read(r io.Reader) error {
	rest, before := f.lines(bufio.NewReaderSize(r, 1<<16))
	d := &input{json.NewDecoder(rest), before}
	if err := expect(d, '{'); err != nil {
		return err
	}
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "traceEvents":
			found = true
			if err := f.events(d); err != nil {
				return err
			}
		case "otherData":
			var other struct {
				Dropped uint64 `json:"events_dropped"`
				Lost    uint64 `json:"events_lost"`
				Cut     string `json:"cut"`
			}
			if err := d.Decode(&other); err != nil {
				return err
			}
			f.Dropped, f.Lost, f.Cut, f.CutBy = other.Dropped, other.Lost, other.Cut != "", other.Cut
		default:
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return err
			}
		}
	}
	if err := expect(d, '}'); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: it has no traceEvents", ErrFile)
	}
	if t, err := d.Token(); err != io.EOF {
		return cmp.Or(err, fmt.Errorf("%w: %.40q at byte %d, expected the end of the file", ErrFile, fmt.Sprint(t), d.before+d.InputOffset()))
	}
	return nil
}

// expect reads a delimiter.
func expect(d *input, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%w: %.40q at byte %d, expected %v", ErrFile, fmt.Sprint(t), d.before+d.InputOffset(), want)
	}
	return err
}

func (f *File) events(d *input) error {
	if err := expect(d, '['); err != nil {
		return err
	}
	for d.More() {
		if len(f.Events) == maxEvents {
			return fmt.Errorf("%w: it has more than %d events; record less, or with a smaller --trace-mib", ErrFile, maxEvents)
		}
		var e Event
		if err := d.Decode(&e); err != nil {
			return err
		}
		f.add(&e)
	}
	return expect(d, ']')
}

// add adds an event.
func (f *File) add(e *Event) {
	if e.Phase == "M" && e.Name == "process_name" {
		if name, ok := e.Args["name"].(string); ok {
			f.Processes[e.PID] = name
		}
	}
	if n := len(f.Events); n == cap(f.Events) { // append would copy a long list too often
		f.Events = slices.Grow(f.Events, max(n, 1<<10))
	}
	f.Events = append(f.Events, *e)
}

// rounding is what two times of one clock may differ in a file, in microseconds.
const rounding = 2e-3

// longest is more than a trace lasts, in microseconds: a year.
const longest = 366 * 24 * 3600 * 1e6

// check finds what the format does not allow.
func (f *File) check() error {
	open := map[string]int{} // asynchronous events
	for i := range f.Events {
		e := &f.Events[i]
		bad := func(format string, a ...any) error {
			return fmt.Errorf("%w: event %d, %.60q: %s", ErrFile, i, e.Name, fmt.Sprintf(format, a...))
		}
		if math.Abs(e.TS) > longest {
			return bad("ts %g, expected within a year", e.TS)
		}
		if e.Name == "" {
			return bad("no name")
		}
		if _, ok := f.Processes[e.PID]; !ok {
			return bad("pid %d has no process_name", e.PID)
		}
		switch e.Phase {
		case "X":
			if e.Dur == nil || !(*e.Dur >= 0 && *e.Dur <= longest) {
				return bad("no dur of 0 to a year")
			}
		case "b":
			open[e.key()]++
		case "e":
			id := e.key()
			if open[id]--; open[id] < 0 {
				return bad("ends, and did not begin")
			}
		case "s", "f":
			if e.ID == "" {
				return bad("an arrow without an id")
			}
		case "M", "C", "i":
		default:
			return bad("ph %.10q, expected one of X i C M s f b e", e.Phase)
		}
	}
	for id, n := range open {
		if n != 0 && f.Dropped == 0 && !f.Cut {
			return fmt.Errorf("%w: asynchronous event %.60q begins and does not end", ErrFile, id)
		}
	}
	return f.checkNesting()
}

// checkNesting checks that any two events of a thread are nested or apart: viewers draw
// nothing else.
func (f *File) checkNesting() error {
	nested := f.pick(func(e *Event) bool { return e.Phase == "X" })
	slices.SortStableFunc(nested, func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.TS, b.TS), cmp.Compare(b.end(), a.end()))
	})
	var open []*Event
	for i, e := range nested {
		if i > 0 && (e.PID != nested[i-1].PID || e.TID != nested[i-1].TID) {
			open = open[:0]
		}
		for len(open) > 0 && open[len(open)-1].end() <= e.TS+rounding {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1].end()+rounding < e.end() {
			last := open[len(open)-1]
			return fmt.Errorf("%w: %.60q at %g of %q ends after %.60q at %g, in which it began", ErrFile, e.Name, e.TS, f.Processes[e.PID], last.Name, last.TS)
		}
		open = append(open, e)
	}
	return nil
}

// pick returns the events for which keep is true.
func (f *File) pick(keep func(*Event) bool) (out []*Event) {
	for i := range f.Events {
		if keep(&f.Events[i]) {
			out = append(out, &f.Events[i])
		}
	}
	return out
}

// Arrows returns the number of messages with an arrow from their sender to their
// receiver, and of those that only one end noted.
func (f *File) Arrows() (matched, alone int) {
	ends := map[string][2]int{}
	for i := range f.Events {
		e := &f.Events[i]
		n := ends[e.ID]
		switch e.Phase {
		case "s":
			n[0]++
		case "f":
			n[1]++
		default:
			continue
		}
		ends[e.ID] = n
	}
	for _, n := range ends {
		if n == [2]int{1, 1} {
			matched++
		} else {
			alone++
		}
	}
	return matched, alone
}
