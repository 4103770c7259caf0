package collective

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

const (
	// flightCalls is the number of calls that a rank remembers.
	flightCalls = 64

	// flightBytes is the size from which on a call's times are kept too. Reading the
	// clock takes a tenth of a call on 64 KiB.
	flightBytes = 256 << 10

	// flightFiles is the number of files of a kind that are kept in a folder: the newest.
	// Two files for each rank are kept in any case, so that all of one failure stay.
	flightFiles = 64

	// flightSkew is how far ahead the clock of another host may be that writes to the
	// same folder.
	flightSkew = time.Minute

	// flightNone is the name that stands for no folder.
	flightNone = "off"

	flightPrefix, flightSuffix = "flight-", ".txt"

	// flightPart ends the name of a file until that is whole.
	flightPart = ".part"

	// flightRank is in the name of a rank's file, before its number.
	flightRank = "rank"

	// flightTime is the form of times in a file.
	flightTime = "2006-01-02T15:04:05.000000Z"

	// flightTags is in the name of a file about sends and receives with tags.
	flightTags = "-tags"

	// flightNotOver is the state of a call that was under way.
	flightNotOver = "NOT OVER"
)

// flight remembers the last calls of this rank, to be written down when the group fails.
// It belongs to the goroutine that holds the lane.
type flight struct {
	calls [flightCalls]flightCall // call n is at n % flightCalls
	next  uint64

	journal journal
}

// journal is a file of last calls, of which there is one at most. Any goroutine may use
// it.
type journal struct {
	once sync.Once
	file string // that was written; empty if none could be
}

// flightCall is one call. Times are since the group was made, and 0 for small calls.
type flightCall struct {
	call  protocol.Call
	over  bool
	began time.Duration
	took  time.Duration
}

// begin remembers that a call on n bytes begins.
func (f *flight) begin(call *protocol.Call, n int, born time.Time) *flightCall {
	c := &f.calls[f.next%flightCalls]
	f.next++
	c.call, c.over, c.began, c.took = *call, false, 0, 0
	if n >= flightBytes {
		c.began = time.Since(born)
	}
	return c
}

// end remembers that it is over.
func (c *flightCall) end(born time.Time) {
	c.over = true
	if c.began != 0 {
		c.took = time.Since(born) - c.began
	}
}

// record writes the calls of the lane down, as journal.record says.
func (g *Group) record(err error) error { return g.flight.journal.record(g, err, "", g.flight.text) }

// record writes a text of last calls down if err, the error of a call, is about another
// rank's death, absence or other call. Only the first one counts. It returns err, with
// the name of the file.
func (j *journal) record(g *Group, err error, kind string, text func() string) error {
	e := (*Error)(nil)
	if g.options.Flight == "" || !errors.As(err, &e) || !(errors.Is(err, ErrTimeout) || errors.Is(err, ErrPeerLost) || errors.Is(err, ErrMismatch)) {
		return err
	}
	j.once.Do(func() {
		path, errWrite := writeFlight(g, err, kind, text())
		if errWrite != nil {
			g.options.Logger.Warn("collective: the last calls are not written down", "folder", g.options.Flight, "error", errWrite)
		}
		j.file = path
	})
	e.Flight = j.file
	return err
}

// writeFlight writes a file of last calls of g, and removes old ones.
func writeFlight(g *Group, cause error, kind, text string) (string, error) {
	now := time.Now()
	path := flightPath(g.options.Flight, fmt.Sprintf("%s%d-of-%d", flightRank, g.rank, g.size), kind, now)
	if err := writeNew(path, fmt.Sprintf("the last calls of rank %d of %d in group %s: process %d on host %q\nfailed at %s, %v after the group was made: %v\n%s",
		g.rank, g.size, g.options.name, os.Getpid(), g.host(g.rank), now.UTC().Format(flightTime), now.Sub(g.born).Round(time.Microsecond), cause, text)); err != nil {
		return "", err
	}
	if err := pruneFlights(g.options.Flight, flightRank, max(flightFiles, 2*g.size)); err != nil {
		g.options.Logger.Warn("collective: old files of last calls stay", "folder", g.options.Flight, "error", err)
	}
	return path, nil
}

// WriteFlight writes the last events of a process that is no rank, as a text, to a new
// file in a folder such as FlightFolder returns, and removes all but the newest files of
// its kind there. who is a word for the file's name, which is the kind.
func WriteFlight(folder, who string, cause error, events string) (path string, err error) {
	f := NewFlightFile(folder, who, cause, events)
	return f.Path, f.Write()
}

// FlightFile is a file of WriteFlight that is not written yet.
type FlightFile struct {
	Path string // that no other file has

	who, text string
}

// NewFlightFile returns the file that WriteFlight would write now. It uses no disk, so a
// caller that must not wait can have another goroutine call Write.
func NewFlightFile(folder, who string, cause error, events string) *FlightFile {
	now := time.Now()
	return &FlightFile{Path: flightPath(folder, who, "", now), who: who,
		text: fmt.Sprintf("the last events of this %s: process %d\nfailed at %s: %v\n%s", who, os.Getpid(), now.UTC().Format(flightTime), cause, events)}
}

// Write writes the file, and removes all but the newest files of its kind.
func (f *FlightFile) Write() error {
	err := writeNew(f.Path, f.text)
	if err == nil {
		_ = pruneFlights(filepath.Dir(f.Path), f.who, flightFiles) // old ones may stay
	}
	return err
}

// flightPath returns the path of a file that is begun now.
func flightPath(folder, who, kind string, now time.Time) string {
	return filepath.Join(folder, fmt.Sprintf("%s%d-%s-pid%d%s%s", flightPrefix, now.UnixNano(), who, os.Getpid(), kind, flightSuffix))
}

// writeNew writes a text to a new file, whose folder it makes. The file has its name when
// it is whole.
func writeNew(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return plain.Path(err)
	}
	part := path + flightPart
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return plain.Path(err)
	}
	_, err = out.WriteString(text)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(plain.Path(limits.Written(path, err)), plain.Path(os.Remove(part)))
	}
	return nil
}

// pruneFlights removes all files of one kind in a folder but the newest, of which it
// leaves as many as keep says. Files that are not whole count, too: a process that was
// killed may have left them. A file's name begins with its time. One whose time is still
// to come counts as older than all others, because the clock was set back after it was
// written. Each kind is counted for itself, since one failure may write files of several.
func pruneFlights(dir, kind string, keep int) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return plain.Path(err)
	}
	all = slices.DeleteFunc(all, func(e os.DirEntry) bool {
		rest, ours := strings.CutPrefix(e.Name(), flightPrefix)
		_, who, _ := strings.Cut(rest, "-") // behind the time
		return !ours || !strings.HasPrefix(who, kind) || !strings.HasSuffix(strings.TrimSuffix(who, flightPart), flightSuffix)
	})
	// ReadDir has sorted them by time. order is -1 for a time that is still to come, else
	// 1.
	last := fmt.Sprint(flightPrefix, time.Now().Add(flightSkew).UnixNano())
	order := func(e os.DirEntry) int { return -strings.Compare(e.Name(), last) }
	slices.SortStableFunc(all, func(a, b os.DirEntry) int { return order(a) - order(b) })
	for _, e := range all[:max(len(all)-keep, 0)] {
		// another rank may have removed it
		if errOne := os.Remove(filepath.Join(dir, e.Name())); errOne != nil && !errors.Is(errOne, os.ErrNotExist) {
			err = cmp.Or(err, plain.Path(errOne))
		}
	}
	return err
}

// text returns the calls for the file.
func (f *flight) text() string {
	var b strings.Builder
	first := f.next - min(f.next, flightCalls)
	fmt.Fprintf(&b, "%d calls in all, the last %d of them, oldest first; times of calls of %d KiB and more are since the group was made\n", f.next, f.next-first, flightBytes>>10)
	for i := first; i < f.next; i++ {
		c := &f.calls[i%flightCalls]
		state := "over"
		switch {
		case !c.over:
			state = flightNotOver
		case c.took != 0:
			state = flightTook(c.took)
		}
		b.WriteString(flightLine(c.began, state, c.call.String()))
	}
	return b.String()
}

// flightTook returns the state of a call that took so long.
func flightTook(d time.Duration) string { return "took " + d.Round(time.Microsecond).String() }

// flightLine returns the line of a call that began so long after the group was made, 0
// for an unknown time.
func flightLine(began time.Duration, state, call string) string {
	at := "-"
	if began != 0 {
		at = fmt.Sprintf("%.6fs", began.Seconds())
	}
	return fmt.Sprintf("%14s  %-14s %s\n", at, state, call)
}

// FlightFolder returns the folder for Options.Flight that a user chose: what was said, or
// where nothing was, one in the user's cache. It is empty, which is none, for "off".
func FlightFolder(said string) string {
	switch said {
	case flightNone:
		return ""
	case "":
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(cache, "ringside", "flight")
	}
	return said
}
