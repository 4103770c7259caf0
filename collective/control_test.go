package collective

import (
	"testing"
	"time"
)

// TestPace: a group that makes no calls is looked at less often after a while, and one
// that does, is in one, or hears something, often.
func TestPace(t *testing.T) {
	var p pace
	// looks is how many looks it takes until the next one is late, after one at which so
	// much had happened.
	looks := func(calls, received uint64, inCall bool) int {
		if d := p.next(calls, received, inCall); d != watchEvery {
			t.Errorf("the next look comes %v after a call or a message, expected %v", d, watchEvery)
		}
		for n := 1; n <= 2*idleAfter; n++ {
			if d := p.next(calls, received, false); d == idleEvery {
				return n
			} else if d != watchEvery {
				t.Fatalf("the next look comes after %v", d)
			}
		}
		t.Fatalf("not idle after %d looks", 2*idleAfter)
		return 0
	}
	for what, n := range map[string]int{
		"a call":            looks(1, 0, false),
		"a message":         looks(1, 1, false),
		"a call under way":  looks(1, 1, true),
		"a call and a word": looks(2, 2, false),
	} {
		if n != idleAfter {
			t.Errorf("idle %d looks after %s, expected %d", n, what, idleAfter)
		}
	}
	if d := p.next(2, 2, false); d != idleEvery {
		t.Errorf("the next look of an idle group comes after %v", d)
	}
}

// TestWatchersLookTogether: whenever they ask, the next look is at the same moment, and
// it is one to come.
func TestWatchersLookTogether(t *testing.T) {
	at := time.Unix(1_700_000_000, 0) // a multiple of both
	for _, every := range []time.Duration{watchEvery, idleEvery} {
		for _, past := range []time.Duration{0, 1, every / 2, every - 1} {
			if d := untilNext(every, at.Add(past)); d != every-past {
				t.Errorf("%v past a look of every %v the next is in %v, expected %v", past, every, d, every-past)
			}
		}
	}
}
