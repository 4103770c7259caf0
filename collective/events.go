package collective

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/net/route"
)

// A file of events is a header and records of 64 bytes each, little endian:
//
//	         0       8      12     16        24            32       64
//	header  | magic | rank | size | process | attempt     | 0      |
//	group   | 1     | group       | 0       | rank | size | name   |
//	call    | 2 ways| group       | began   | took 8 bytes|Call    |
//
// A record's first byte is its type, the second the ways of a call or group, the third 1
// for a call that failed, the fourth 1 for a receive from any rank that took no message.
// Times are nanoseconds, began since 1970. The Call begins at
// byte 24 in both kinds of calls, and took is at byte 16.
const (
	eventsMagic  = "rsranks1"
	eventBytes   = 64
	eventsSuffix = ".events"

	// eventsBytes bounds the file of a rank: 2,097,151 records.
	eventsBytes = 128 << 20

	// flushEvery is how long an event may stay in the process while others come: a rank
	// that is killed takes those with it.
	flushEvery = 50 * time.Millisecond
)

// Types of records.
const (
	recordGroup byte = 1 + iota
	recordCall
	recordTagged
)

// Ways of a call: bits of the second byte of a record.
const (
	waysShared byte = 1 << iota
	waysTCP
)

// recorder writes the events of this rank's groups to a file. Its lock is held while 64
// bytes are copied, and once in flushEvery while they are written.
type recorder struct {
	mu      sync.Mutex
	file    *os.File
	buf     []byte
	wrote   int64
	dropped uint64
	err     error // of the file; nothing is written after it
	born    time.Time
	wall    int64 // born in nanoseconds since 1970
	flushed time.Time
	groups  uint32
	open    int // groups that have not been closed
}

// tape is a recorder's part for one group.
type tape struct {
	*recorder
	group uint32
	ways  byte
}

// newRecorder makes a file in dir for a rank of the world.
func newRecorder(dir string, rank, size int, attempt uint64) (*recorder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("rank%d-*%s", rank, eventsSuffix))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r := &recorder{file: f, born: now, wall: now.UnixNano(), flushed: now}
	b := []byte(eventsMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(rank))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint64(b, uint64(os.Getpid()))
	b = binary.LittleEndian.AppendUint64(b, attempt)
	r.buf = append(b, make([]byte, eventBytes-len(b))...)
	return r, nil
}

// make is New, and has the group, and those that are made of it, write their events if a
// folder is named for them.
func (o *Options) make(ctx context.Context, rank int, members []route.Member, attempt uint64) (*Group, error) {
	if o.Events == "" {
		return New(ctx, rank, members, o)
	}
	r, err := newRecorder(o.Events, rank, len(members), attempt)
	if err != nil {
		for _, m := range members {
			if m.Conn != nil {
				m.Conn.Close()
			}
		}
		return nil, fmt.Errorf("collective: events of rank %d: %w", rank, err)
	}
	o.recorder = r
	g, err := New(ctx, rank, members, o)
	if err != nil {
		err = errors.Join(err, r.file.Close())
	}
	return g, err
}

// begin returns the tape of a group that was made.
func (r *recorder) begin(g *Group) *tape {
	t := &tape{recorder: r}
	if len(g.layout.hosts) > 1 || g.size > 1 && g.shared == nil {
		t.ways |= waysTCP
	}
	if len(g.sharers) > 1 {
		t.ways |= waysShared
	}
	var b [eventBytes]byte
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	t.group = r.groups
	r.groups++
	b[0], b[1] = recordGroup, t.ways
	binary.LittleEndian.PutUint32(b[4:], t.group)
	binary.LittleEndian.PutUint32(b[16:], uint32(g.rank))
	binary.LittleEndian.PutUint32(b[20:], uint32(g.size))
	copy(b[24:], g.options.name)
	r.add(&b, time.Now())
	return t
}

// call notes that a call, or a tagged transfer, is over which began at a time. peer is
// the other rank of a pair, tag is of a tagged one.
func (t *tape) call(kind byte, began time.Time, c protocol.Call, peer int, tag uint32, err error) {
	now := time.Now()
	var b [eventBytes]byte
	b[0], b[1] = kind, t.ways
	if err != nil {
		b[2] = 1
	}
	switch {
	case !c.Kind.Paired():
	case peer == AnyRank:
		b[3] = 1
	default:
		c.Root = int32(peer)
	}
	if kind == recordTagged {
		c.Counts = uint64(tag)
	}
	binary.LittleEndian.PutUint32(b[4:], t.group)
	binary.LittleEndian.PutUint64(b[8:], uint64(t.wall+int64(began.Sub(t.born))))
	binary.LittleEndian.PutUint64(b[16:], uint64(now.Sub(began)))
	c.Encode((*[protocol.CallBytes]byte)(b[24:]))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(&b, now)
	if err != nil {
		t.flush(now)
	}
}

// add appends a record; mu is held.
func (r *recorder) add(b *[eventBytes]byte, now time.Time) {
	if r.wrote+int64(len(r.buf)+eventBytes) > eventsBytes {
		r.dropped++
		return
	}
	r.buf = append(r.buf, b[:]...)
	if len(r.buf) >= 64<<10 || now.Sub(r.flushed) > flushEvery {
		r.flush(now)
	}
}

// flush writes what there is; mu is held.
func (r *recorder) flush(now time.Time) {
	r.flushed = now
	if r.err != nil {
		r.buf = r.buf[:0]
		return
	}
	var n int
	n, r.err = r.file.Write(r.buf)
	r.wrote += int64(n)
	r.buf = r.buf[:0]
	if r.err == nil && r.dropped > 0 {
		_, r.err = r.file.WriteAt(binary.LittleEndian.AppendUint64(nil, r.dropped), droppedAt)
	}
}

// droppedAt is where a header has the number of events without room.
const droppedAt = 32

// close writes the last events of a group, and closes the file after the last group.
func (t *tape) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(time.Now())
	err := t.err
	if t.open--; t.open == 0 {
		err = errors.Join(err, t.file.Close())
		t.err = os.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("collective: events of this rank: %w", err)
	}
	return nil
}

// RankEvents are the events of one rank, as Options.Events has them written.
type RankEvents struct {
	// Host names the host whose clock the events have, where they are of several; its
	// reader sets it.
	Host       string
	Rank, Size int
	PID        uint64
	Attempt    uint64       // of the launcher, from 0
	Dropped    uint64       // events that had no room
	Groups     []EventGroup // by Event.Group
	Events     []Event      // in the order in which calls ended
}

// EventGroup is a group of a rank that was traced.
type EventGroup struct {
	Name       string
	Rank, Size int
	Path       string // "shared memory", "TCP", both, or empty for a group of one
}

// Event is a call of a rank.
type Event struct {
	Group  int
	Call   protocol.Call
	Began  int64 // nanoseconds since 1970, by the clock of the rank's host
	Took   int64 // nanoseconds
	Tagged bool  // a send or receive with a tag
	Tag    uint32
	Peer   int // of a send or receive: the other rank, or AnyRank if none came
	Failed bool
}

// ErrEvents is returned for a file that has no events of a rank.
var ErrEvents = errors.New("collective: not a file of a rank's events")

// ReadEvents reads all files of events in a folder, in the order of attempts and ranks.
// The end of a file may be missing: the rank was killed.
func ReadEvents(dir string) ([]*RankEvents, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*RankEvents
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), eventsSuffix) {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(f, eventsBytes))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if len(b) == 0 {
			continue // killed before its first event
		}
		e, err := parseEvents(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b *RankEvents) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Rank, b.Rank))
	})
	return all, nil
}

// parseEvents reads the bytes of a file. It ignores a record that is not whole.
func parseEvents(b []byte) (*RankEvents, error) {
	le := binary.LittleEndian
	if len(b) < eventBytes || string(b[:8]) != eventsMagic {
		return nil, fmt.Errorf("%w: it begins with %.8q, expected %q and %d bytes", ErrEvents, b[:min(len(b), 8)], eventsMagic, eventBytes)
	}
	r := &RankEvents{Rank: int(le.Uint32(b[8:])), Size: int(le.Uint32(b[12:])), PID: le.Uint64(b[16:]), Attempt: le.Uint64(b[24:]), Dropped: le.Uint64(b[droppedAt:])}
	for at := eventBytes; at+eventBytes <= len(b); at += eventBytes {
		b := b[at : at+eventBytes]
		group := int(le.Uint32(b[4:]))
		switch b[0] {
		case recordGroup:
			if group != len(r.Groups) {
				return nil, fmt.Errorf("%w: group %d at byte %d, expected %d", ErrEvents, group, at, len(r.Groups))
			}
			name, _, _ := bytes.Cut(b[24:], []byte{0})
			r.Groups = append(r.Groups, EventGroup{string(name), int(le.Uint32(b[16:])), int(le.Uint32(b[20:])), waysText(b[1])})
		case recordCall, recordTagged:
			c, err := protocol.DecodeCall(b[24:])
			if err == nil && group >= len(r.Groups) {
				err = fmt.Errorf("a call of group %d, expected one of %d that are above it", group, len(r.Groups))
			}
			if err != nil {
				return nil, fmt.Errorf("%w: byte %d: %w", ErrEvents, at, err)
			}
			e := Event{Group: group, Call: c, Began: int64(le.Uint64(b[8:])), Took: int64(le.Uint64(b[16:])), Failed: b[2] != 0}
			if c.Kind.Paired() {
				e.Peer, e.Call.Root = int(c.Root), 0
			}
			if b[3] != 0 {
				e.Peer = AnyRank
			}
			if b[0] == recordTagged {
				e.Tagged, e.Tag, e.Call.Counts = true, uint32(c.Counts), 0
			}
			if e.Began < 0 || e.Took < 0 || e.Began+e.Took < 0 {
				return nil, fmt.Errorf("%w: byte %d: began %d, took %d, expected nothing negative, nor their sum", ErrEvents, at, e.Began, e.Took)
			}
			r.Events = append(r.Events, e)
		default:
			return nil, fmt.Errorf("%w: a record of type %d at byte %d", ErrEvents, b[0], at)
		}
	}
	return r, nil
}

// waysText says which ways calls take.
func waysText(ways byte) string {
	switch ways {
	case waysShared:
		return "shared memory"
	case waysTCP:
		return "TCP"
	case waysShared | waysTCP:
		return "shared memory and TCP"
	}
	return ""
}
