package wire

// Bounds of a History. They are part of the protocol: both ends must forget the same
// runs.
const (
	// programs that a session has in use at a time; a training loop has two or three
	maxHistoryRuns = 64
	maxHistoryIDs  = 1 << 17 // ids over all of them: 1 MiB
)

// History remembers the ids and scalars of each program's last run, from which those of
// the next are predicted. Each end of a session has one; the zero value is ready to use.
// Both ends call Record for the same runs in the same order: the sender once the message
// is committed, the receiver once it is parsed. It is not safe for concurrent use.
type History struct {
	runs []*pastRun // most recently recorded first
	ids  int        // over all of runs
}

type pastRun struct {
	hash                 Hash
	base                 uint64
	inputs, frees, fetch []uint64
	scalars              []float64
}

// ids returns the part of maxHistoryIDs that r uses; a scalar counts as one.
func (r *pastRun) ids() int { return len(r.inputs) + len(r.frees) + len(r.fetch) + len(r.scalars) }

// find returns the program's last run, nil when there is none. A nil History has none.
func (h *History) find(hash Hash) *pastRun {
	if h == nil {
		return nil
	}
	for _, r := range h.runs {
		if r.hash == hash {
			return r
		}
	}
	return nil
}

// Record remembers m as its program's last run. It forgets the programs in m.Forget, and
// beyond the bounds those least recently run. It allocates only for a program that is
// new.
func (h *History) Record(m *Run) {
	at := 0
	for at < len(h.runs) && h.runs[at].hash != m.Hash {
		at++
	}
	var r *pastRun
	if at < len(h.runs) {
		r = h.runs[at]
		h.ids -= r.ids()
	} else {
		r = &pastRun{hash: m.Hash}
		h.runs = append(h.runs, nil)
	}
	copy(h.runs[1:at+1], h.runs[:at])
	h.runs[0] = r
	r.base = m.Base
	r.inputs = append(r.inputs[:0], m.Inputs...)
	r.frees = append(r.frees[:0], m.Frees...)
	r.fetch = append(r.fetch[:0], m.Fetch...)
	r.scalars = append(r.scalars[:0], m.Scalars...)
	h.ids += r.ids()
	for i := range m.Forget {
		h.forget(m.Forget[i])
	}
	for len(h.runs) > maxHistoryRuns || h.ids > maxHistoryIDs {
		h.drop(len(h.runs) - 1)
	}
}

func (h *History) forget(hash Hash) {
	for i, r := range h.runs {
		if r.hash == hash {
			h.drop(i)
			return
		}
	}
}

func (h *History) drop(i int) {
	h.ids -= h.runs[i].ids()
	copy(h.runs[i:], h.runs[i+1:])
	h.runs[len(h.runs)-1] = nil
	h.runs = h.runs[:len(h.runs)-1]
}
