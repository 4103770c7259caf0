package ipc

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// warnAtOnce is how many warnings of a kind are logged as they come: enough to see
	// all that a few misconfigured peers cause.
	warnAtOnce = 4

	// warnEvery is how often those that came after them are logged as a count.
	warnEvery = 10 * time.Second
)

// Warnings logs what a peer can cause as often as it likes, such as a handshake that
// fails, and keeps it from filling the log. The first few warnings of a kind are logged
// as they come. Further ones are only logged at level Debug, and counted: every 10 s, as
// long as there are any, one warning has the attributes of the last one and the count.
// Kinds do not hide each other. Any goroutine may call any method.
type Warnings struct {
	log *slog.Logger

	mu     sync.Mutex
	kinds  map[string]*warned
	closed bool
}

// warned is what came of one kind lately.
type warned struct {
	logged int // as they came
	more   int // since the last count
	msg    string
	args   []any       // these two of the last one
	count  *time.Timer // logs the count, or forgets the kind when nothing came
}

// NewWarnings returns Warnings that go to log. Close ends them.
func NewWarnings(log *slog.Logger) *Warnings {
	return &Warnings{log: log, kinds: map[string]*warned{}}
}

// Warn logs or counts a warning. There must be few kinds, and none that a peer makes up.
func (w *Warnings) Warn(kind, msg string, args ...any) {
	if w.count(kind, msg, args) {
		w.log.Debug(msg, args...)
	} else {
		w.log.Warn(msg, args...)
	}
}

// count reports whether the warning is one of too many, which then is counted.
func (w *Warnings) count(kind, msg string, args []any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	k := w.kinds[kind]
	if k == nil {
		k = &warned{count: time.AfterFunc(warnEvery, func() { w.tell(kind) })}
		w.kinds[kind] = k
	}
	if k.logged < warnAtOnce {
		k.logged++
		return false
	}
	k.more++
	k.msg, k.args = msg, args
	return true
}

// tell logs how many there were of a kind.
func (w *Warnings) tell(kind string) {
	w.mu.Lock()
	k := w.kinds[kind]
	if k == nil { // closed just now
		w.mu.Unlock()
		return
	}
	last := *k
	k.more, k.args = 0, nil
	if last.more == 0 {
		delete(w.kinds, kind)
	} else {
		k.count.Reset(warnEvery)
	}
	w.mu.Unlock()
	last.tell(w.log)
}

func (k *warned) tell(log *slog.Logger) {
	if k.more > 0 {
		log.Warn(k.msg, append(k.args[:len(k.args):len(k.args)], "count", k.more)...)
	}
}

// Close logs the counts of what was not logged yet. Warnings that come later are logged
// as they come.
func (w *Warnings) Close() {
	w.mu.Lock()
	kinds := w.kinds
	w.kinds, w.closed = nil, true
	w.mu.Unlock()
	for _, k := range kinds {
		k.count.Stop()
		k.tell(w.log)
	}
}
