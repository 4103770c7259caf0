package ring

import "testing"

// TestLinger: a consumer that always finds one record and then none does not wait
// for more, but for the rare try; one that finds many each time does, until it
// finds few.
func TestLinger(t *testing.T) {
	_, p, c := heapRing(t, 1<<16, nil)
	put := func(n int) {
		for range n {
			if _, err := p.Reserve(8); err != nil {
				t.Fatal(err)
			}
			p.Commit(1)
		}
	}
	// catchUp takes all there is and looks once more.
	catchUp := func() {
		for {
			if _, _, err := c.Peek(); err == ErrEmpty {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			c.Release()
		}
	}
	lingered := 0
	for range 2 * maxLingerEvery {
		put(1)
		catchUp()
		if c.lingers {
			lingered++
		}
	}
	// At 16, 32, …: twice as long each time.
	if lingered < 2 || lingered > 10 {
		t.Errorf("lingered %d times in %d answers", lingered, 2*maxLingerEvery)
	}
	for c.lingers = false; !c.lingers; {
		put(1)
		catchUp()
	}
	for range 100 {
		put(lingerRun)
		catchUp()
		if !c.lingers {
			t.Fatal("stopped lingering in a stream")
		}
	}
	if c.every != minLingerEvery {
		t.Errorf("next try after %d, expected %d after a success", c.every, minLingerEvery)
	}
	put(lingerRun - 1)
	catchUp()
	if c.lingers {
		t.Error("lingers where too little gathers")
	}
	catchUp()
	if c.lingers || c.linger() {
		t.Error("lingers at an idle ring")
	}
}

// TestLingerInVainAmongPolls: a consumer that looks again and again, as one of many rings
// does, tries as rarely as one that waits.
func TestLingerInVainAmongPolls(t *testing.T) {
	_, p, c := heapRing(t, 1<<16, nil)
	lingered := 0
	for range 2 * maxLingerEvery {
		if _, err := p.Reserve(8); err != nil {
			t.Fatal(err)
		}
		p.Commit(1)
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		c.Release()
		for range 4 {
			if _, _, err := c.Peek(); err != ErrEmpty {
				t.Fatalf("%v, expected ErrEmpty", err)
			}
			if c.lingers {
				lingered++
			}
		}
	}
	if lingered < 2 || lingered > 10 {
		t.Errorf("lingered %d times in %d answers", lingered, 2*maxLingerEvery)
	}
}
