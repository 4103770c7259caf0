package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// answerOf makes a dispatcher's counters, with the names of some of its workers.
func answerOf(all int, named ...string) client.Counters {
	c := client.Counters{{Name: metrics.Workers, Value: uint64(all)}}
	for _, name := range named {
		c = append(c, wire.Counter{Name: metrics.OfWorker(name, metrics.PID), Value: 1}, wire.Counter{Name: metrics.OfDevice(name, "cpu")})
	}
	return c
}

func partsOf(workers int) []Part {
	parts := []Part{{Child{Role: RoleDispatcher}, 1}}
	for i := range workers {
		parts = append(parts, Part{Child{Role: RoleWorker, Name: fmt.Sprint("w", i)}, 2 + i})
	}
	return parts
}

// TestLate has parts connect over time: those that are missing are named, first soon and
// then less often, and the limit counts from the last one that connected.
func TestLate(t *testing.T) {
	const limit = time.Minute
	var l late
	start, parts := time.Unix(0, 0), partsOf(2)
	for _, step := range []struct {
		at            time.Duration
		answer        client.Counters // nil: none
		missing       []string
		reminds, over bool
	}{
		{at: 0, missing: []string{"dispatcher", "worker w0", "worker w1"}},
		{at: firstReminder, missing: []string{"dispatcher", "worker w0", "worker w1"}, reminds: true},
		{at: firstReminder + 1, missing: []string{"dispatcher", "worker w0", "worker w1"}},
		{at: limit - 1, answer: answerOf(0), missing: []string{"worker w0", "worker w1"}},
		{at: limit, answer: answerOf(1, "w1"), missing: []string{"worker w0"}},
		{at: 2*limit - 1, answer: answerOf(1, "w1"), missing: []string{"worker w0"}, reminds: true},
		// A worker that comes and goes is no progress.
		{at: 2*limit - 1, answer: answerOf(0), missing: []string{"worker w0", "worker w1"}},
		{at: 2 * limit, answer: answerOf(1, "w1"), missing: []string{"worker w0"}, over: true},
		{at: 2 * limit, answer: answerOf(2, "w0", "w1")},
	} {
		now := start.Add(step.at)
		if step.answer != nil {
			l.ask(now)
			if l.answered(step.answer, parts, 2) != (len(step.missing) == 0) {
				t.Errorf("%v: ready is wrong", step.at)
			}
		}
		s := l.look(now, limit, parts)
		var missing []string
		for _, p := range s.missing {
			missing = append(missing, p.String())
		}
		if !slices.Equal(missing, step.missing) || s.reminds != step.reminds || s.over != step.over {
			t.Errorf("%v: %q are missing, reminds %v, over %v; expected %+v", step.at, missing, s.reminds, s.over, step)
		}
	}
}

// TestLateDispatcher has a dispatcher that does not answer a question any more.
func TestLateDispatcher(t *testing.T) {
	var l late
	now, parts := time.Unix(0, 0), partsOf(1)
	l.answered(answerOf(1, "w0"), parts, 1)
	for i, missing := range []int{0, 0, 1} {
		l.ask(time.Unix(0, 0))
		if s := l.look(now, time.Minute, parts); len(s.missing) != missing {
			t.Errorf("look %d: %v are missing, expected %d", i, s.missing, missing)
		}
		now = now.Add(time.Second)
	}
}

// TestLateOthers has workers of another host, which make no cluster ready, and workers
// whose names the dispatcher has no room for.
func TestLateOthers(t *testing.T) {
	var l late
	parts := partsOf(2)
	if l.answered(answerOf(2, "w0", "far"), parts, 2) {
		t.Error("ready with another host's worker in place of w1")
	}
	if !l.answered(answerOf(3, "w0", "w1", "far"), parts, 2) {
		t.Error("not ready because of another host's worker")
	}
	if l.answered(answerOf(2, "w0"), partsOf(3), 3) {
		t.Error("ready with two of three workers, of which one is not named")
	}
	if s := l.look(time.Unix(0, 0), time.Minute, partsOf(3)); len(s.missing) != 2 || s.unnamed != 1 {
		t.Errorf("%+v; expected two workers of which one is connected", s)
	}
	if !l.answered(answerOf(3, "w0"), partsOf(3), 3) {
		t.Error("not ready because workers are not named")
	}
	connected := wire.Counter{Name: metrics.OfWorker("w1", metrics.PID), Value: 1}
	if l.answered(append(answerOf(1, "w0"), connected), parts, 2) {
		t.Error("ready before w1 has said which device it has")
	}
}
