package trace

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ringside-go/ringside/shm/plain"
)

// Item is a part of the time.
type Item struct {
	Name    string
	Count   int
	Seconds float64
	Bytes   float64
}

// Lane is what a process did.
type Lane struct {
	Name    string
	Working float64 // seconds, without waiting
	Waiting float64 // for other workers, or for an answer
	process int
	client  bool
	rank    bool
}

// Summary says where the time of a trace went. Times are seconds.
type Summary struct {
	Seconds    float64 // from the first event to the last
	Steps      int     // of training, between the first mark and the last
	StepTime   float64 // of each of these
	Lanes      []Lane
	Phases     []Item // of all workers and the client
	Ops        []Item // of all workers, the longest first
	Sent       Item   // messages of the client
	RoundTrips int
	Uploads    Item
	Reads      Item
	Overlapped float64 // time in which collectives ran beside other work
	Hidden     float64 // the part of it in which programs ran
	PerStep    PerStep
	Matched    int     // messages found at both ends
	Alone      int     // messages found at one end
	Lost       uint64  // events that are not in the file
	Cut        bool    // the last events are missing
	CutBy      string  // why, if the file says it
	Until      float64 // seconds of the trace until its last event ended
}

// PerStep is what the client did in a step of training, between the first mark and the
// last.
type PerStep struct{ RoundTrips, Messages, MessageBytes, UploadBytes float64 }

// Phases of a summary.
const (
	phaseRun     = "workers: programs"
	phaseMessage = "workers: messages, without programs"
	phaseCompile = "workers: compile and rewrite"
	phaseWait    = "workers: wait for each other in collectives"
	phaseIdle    = "workers: wait for the client"
	phaseRecord  = "client: between submits (records, reads data)"
	phaseSubmit  = "client: submit, without waiting"
	phaseAnswer  = "client: wait for answers"
	phaseCalls   = "ranks: in calls, waiting for others or moving bytes"
	phaseCompute = "ranks: between calls"
)

// span is a part of the time, in microseconds.
type span struct{ from, to float64 }

// Summarize computes the summary of a file.
func Summarize(f *File) *Summary {
	s := &summing{
		Summary: &Summary{Lost: f.Lost + f.Dropped, Cut: f.Cut, CutBy: f.CutBy}, file: f, ops: map[string]*Item{}, phases: map[string]*Item{}, lanes: map[int]*Lane{},
		alive: map[int]span{}, programs: map[int][]span{}, beside: map[int][]span{}, begun: map[string]*Event{},
	}
	s.Matched, s.Alone = f.Arrows()
	first, last := bounds(f)
	s.Seconds, s.Until = (last-first)/1e6, last/1e6
	s.marks = f.pick(func(e *Event) bool { return e.Phase+e.Cat == "i"+catStepMark })
	for i := range f.Events {
		s.add(&f.Events[i])
	}
	for pid, spans := range s.beside {
		for _, x := range union(spans) {
			s.Overlapped += (x.to - x.from) / 1e6
			s.Hidden += covered(s.programs[pid], x) / 1e6
		}
	}
	subtract(s.phases, phaseMessage, phaseRun, phaseCompile, phaseWait)
	subtract(s.phases, phaseSubmit, phaseAnswer)
	s.perStep()
	s.endLanes()
	s.Ops, s.Phases = longestFirst(s.ops), longestFirst(s.phases)
	return s.Summary
}

// summing is a summary that is being computed.
type summing struct {
	*Summary
	file             *File
	ops, phases      map[string]*Item
	lanes            map[int]*Lane
	alive            map[int]span // of processes with work: from its first to its last
	programs, beside map[int][]span
	begun            map[string]*Event // collectives beside other work, by process and id
	marks            []*Event          // the ends of steps of training
}

// count adds an event to the item of m with that name.
func count(m map[string]*Item, name string, micros, bytes float64) {
	x := m[name]
	if x == nil {
		x = &Item{Name: name}
		m[name] = x
	}
	x.Count, x.Seconds, x.Bytes = x.Count+1, x.Seconds+micros/1e6, x.Bytes+bytes
}

// trained reports whether e lies between the first mark and the last.
func (s *summing) trained(e *Event) bool {
	return len(s.marks) > 0 && e.TS > s.marks[0].TS && e.TS <= s.marks[len(s.marks)-1].TS
}

// add adds an event.
func (s *summing) add(e *Event) {
	l := s.lanes[e.PID]
	if l == nil {
		l = &Lane{Name: s.file.Processes[e.PID], process: e.PID}
		s.lanes[e.PID] = l
	}
	took := e.end() - e.TS
	if e.Phase == "X" {
		a, ok := s.alive[e.PID]
		if !ok {
			a = span{e.TS, e.end()}
		}
		s.alive[e.PID] = span{min(a.from, e.TS), max(a.to, e.end())}
	}
	switch e.Phase + e.Cat {
	case "X" + catMessage:
		l.Working += took / 1e6
		count(s.phases, phaseMessage, took, 0)
	case "X" + catProgram:
		count(s.phases, phaseRun, took, 0)
		s.programs[e.PID] = append(s.programs[e.PID], span{e.TS, e.end()})
	case "X" + catCompile:
		count(s.phases, phaseCompile, took, 0)
	case "X" + catStep:
		count(s.ops, e.Name, took, e.number("bytes"))
	case "X" + catCollective:
		l.Working -= took / 1e6
		l.Waiting += took / 1e6
		count(s.phases, phaseWait, took, e.number("bytes"))
	case "X" + catCall:
		l.rank = true
		l.Waiting += took / 1e6
		count(s.phases, phaseCalls, took, e.number("bytes"))
		count(s.ops, e.Name, took, e.number("bytes"))
	case "b" + catCollective:
		s.begun[fmt.Sprint(e.PID, e.ID)] = e
	case "e" + catCollective:
		if b := s.begun[fmt.Sprint(e.PID, e.ID)]; b != nil {
			s.beside[e.PID] = append(s.beside[e.PID], span{b.TS, e.TS})
		}
	default:
		s.addClient(e, l, took)
	}
}

// addClient adds an event of a client, which took so many microseconds.
func (s *summing) addClient(e *Event, l *Lane, took float64) {
	trained := s.trained(e)
	switch e.Phase + e.Cat {
	case "X" + catWait:
		l.client = true
		s.RoundTrips++
		if trained {
			s.PerStep.RoundTrips++
		}
		l.Working -= took / 1e6
		l.Waiting += took / 1e6
		count(s.phases, phaseAnswer, took, 0)
	case "X" + catClient:
		l.client = true
		if e.Name == "submit" {
			l.Working += took / 1e6
			count(s.phases, phaseSubmit, took, 0)
			return
		}
		s.Sent.Count++
		s.Sent.Bytes += e.number("bytes")
		if trained {
			s.PerStep.Messages++
			s.PerStep.MessageBytes += e.number("bytes")
		}
	case "i" + catClient:
		x := &s.Uploads
		if e.Name == "read" {
			x = &s.Reads
		} else if e.Name != "upload" {
			return
		}
		x.Count += int(e.number("tensors"))
		x.Bytes += e.number("bytes")
		if trained && x == &s.Uploads {
			s.PerStep.UploadBytes += e.number("bytes")
		}
	}
}

// perStep divides what was counted between the marks by the steps between them.
func (s *summing) perStep() {
	last := len(s.marks) - 1
	if last < 1 {
		return
	}
	if s.Steps = int(min(s.marks[last].number("step"), 1e12) - s.marks[0].number("step")); s.Steps > 0 {
		n, p := float64(s.Steps), &s.PerStep
		s.StepTime = (s.marks[last].TS - s.marks[0].TS) / 1e6 / n
		p.RoundTrips, p.Messages, p.MessageBytes, p.UploadBytes = p.RoundTrips/n, p.Messages/n, p.MessageBytes/n, p.UploadBytes/n
	}
}

// endLanes adds the time in which the processes had nothing to do, and lists them.
func (s *summing) endLanes() {
	for _, pid := range slices.Sorted(maps.Keys(s.lanes)) {
		l, at := s.lanes[pid], s.alive[pid]
		if at == (span{}) {
			continue // it has counters alone
		}
		if idle := (at.to-at.from)/1e6 - l.Working - l.Waiting; l.client {
			s.phases[phaseRecord] = &Item{Name: phaseRecord, Count: 1, Seconds: max(idle, 0)}
			l.Working += max(idle, 0)
		} else if l.rank {
			count(s.phases, phaseCompute, 1e6*max(idle, 0), 0)
			l.Working += max(idle, 0)
		} else {
			count(s.phases, phaseIdle, 1e6*max(idle, 0), 0)
		}
		s.Lanes = append(s.Lanes, *l)
	}
}

// bounds returns the first and the last time of a file.
func bounds(f *File) (first, last float64) {
	found := false
	for i := range f.Events {
		e := &f.Events[i]
		if e.Phase == "M" || e.Phase == "C" {
			continue
		}
		if !found {
			first, last, found = e.TS, e.end(), true
		}
		first, last = min(first, e.TS), max(last, e.end())
	}
	return first, last
}

// subtract takes the time of parts off an item that contains them.
func subtract(m map[string]*Item, from string, parts ...string) {
	x := m[from]
	for _, name := range parts {
		if p := m[name]; p != nil && x != nil {
			x.Seconds = max(x.Seconds-p.Seconds, 0)
		}
	}
}

// covered is how much of a span others cover. They are apart, and in order.
func covered(by []span, s span) (sum float64) {
	i, _ := slices.BinarySearchFunc(by, s.from, func(x span, t float64) int { return cmp.Compare(x.to, t) })
	for ; i < len(by) && by[i].from < s.to; i++ {
		sum += max(min(by[i].to, s.to)-max(by[i].from, s.from), 0)
	}
	return sum
}

// union returns the time that spans cover, in order. It reorders spans.
func union(spans []span) (out []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

func longestFirst(m map[string]*Item) (out []Item) {
	for _, x := range m {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), strings.Compare(a.Name, b.Name))
	})
	return out
}

// largest returns the phase that takes most time, but for waits that others explain.
func (s *Summary) largest() (out Item) {
	for _, x := range s.Phases {
		if x.Name != phaseAnswer && (x.Name != phaseIdle || s.client() == nil) && x.Seconds > out.Seconds {
			out = x
		}
	}
	return out
}

// client returns the lane of the client; nil if there is none.
func (s *Summary) client() *Lane {
	for i := range s.Lanes {
		if s.Lanes[i].client {
			return &s.Lanes[i]
		}
	}
	return nil
}

// Advice says in words what to do about the largest item.
func (s *Summary) Advice() string {
	x := s.largest()
	if x.Seconds == 0 {
		return "nothing was done: record while the program runs."
	}
	head := fmt.Sprintf("Largest: %s, %s. ", x.Name, seconds(x.Seconds))
	switch x.Name {
	case phaseRun:
		if len(s.Ops) == 0 {
			return head + "The device does not tell its steps apart; `ringside plan dump` shows those of a program."
		}
		op, all := s.Ops[0], 0.0
		for _, o := range s.Ops {
			all += o.Seconds
		}
		head += fmt.Sprintf("Of the steps %s takes %.0f %%: ", op.Name, 100*op.Seconds/all)
		if strings.Contains(op.Name, "matmul") {
			return head + "matrix products use all that a core has; more workers or --threads, a GPU, or a smaller model help."
		}
		return head + "if it is not a matrix product, its time is memory traffic: smaller batches that stay in a core's cache, or 16-bit types, help."
	case phaseWait:
		return head + "Workers wait for the slowest: compare their lanes. Fewer and larger collectives (--accumulate), layers on stages (--stages) or fewer workers help."
	case phaseMessage:
		return head + "Messages cost more than what they ask for: let more operations come between two reads of a value, and upload less often."
	case phaseCalls:
		return head + "Ranks wait for the slowest: compare their lanes. If they come together, fewer and larger calls (AllReduceMany), memory of Alloc, and calls beside the computation (Async) help."
	case phaseCompute:
		return head + "Calls are not what takes the time; the program between them is."
	case phaseCompile:
		return head + "Programs are new again and again: keep shapes the same from step to step, so that plans are found again."
	case phaseIdle:
		return head + "A client gives them too little to do; record with train --trace to see the client as well."
	default:
		return head + "The client is slower than the workers: fewer and larger operations, a larger batch, and data that is prepared before help."
	}
}

// seconds prints a time.
func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", 1e3*s)
	}
	return fmt.Sprintf("%.3g us", 1e6*s)
}

// bytes prints a number of bytes.
func bytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 || unit == "GiB" {
			return fmt.Sprintf("%.4g %s", n, unit)
		}
		n /= 1024
	}
	return ""
}

// Write prints the summary. most is the number of operations that it names.
func (s *Summary) Write(w io.Writer, most int) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "time\t%s\n", seconds(s.Seconds))
	if s.Steps > 0 {
		fmt.Fprintf(tw, "steps\t%d of %s, from the first loss that was read to the last\n", s.Steps, seconds(s.StepTime))
	}
	if s.client() != nil {
		fmt.Fprintf(tw, "round trips\t%d\n", s.RoundTrips)
		fmt.Fprintf(tw, "messages\t%d of %s in all; %d found at their receiver, %d at one end only\n", s.Sent.Count, bytes(s.Sent.Bytes), s.Matched, s.Alone)
		fmt.Fprintf(tw, "uploads\t%s of %s\n", plain.Count(s.Uploads.Count, "tensor"), bytes(s.Uploads.Bytes))
		fmt.Fprintf(tw, "reads\t%s of %s\n", plain.Count(s.Reads.Count, "tensor"), bytes(s.Reads.Bytes))
		if s.Steps > 0 {
			p := &s.PerStep
			fmt.Fprintf(tw, "per step\t%.3g round trips, %.3g messages of %s together, %s uploaded\n", p.RoundTrips, p.Messages, bytes(p.MessageBytes), bytes(p.UploadBytes))
		}
	}
	if s.Overlapped > 0 {
		fmt.Fprintf(tw, "overlap\t%s of collectives beside programs, %.0f %% of the time in which they ran\n", seconds(s.Hidden), 100*s.Hidden/s.Overlapped)
	}
	if s.Lost > 0 {
		fmt.Fprintf(tw, "missing\t%d events, which are not in the file\n", s.Lost)
	}
	switch {
	case s.CutBy != "":
		fmt.Fprintf(tw, "missing\tthe events after %s: %.300q\n", seconds(s.Until), s.CutBy)
	case s.Cut:
		fmt.Fprintf(tw, "missing\tthe end of the file: the process that wrote it was killed, or writes yet\n")
	}
	fmt.Fprintf(tw, "\nprocess\tworking\twaiting\n")
	for _, l := range s.Lanes {
		fmt.Fprintf(tw, "%q\t%s\t%s\n", l.Name, seconds(l.Working), seconds(l.Waiting))
	}
	fmt.Fprintf(tw, "\nphase\ttime\ttimes\n")
	for _, x := range s.Phases {
		fmt.Fprintf(tw, "%s\t%s\t%d\n", x.Name, seconds(x.Seconds), x.Count)
	}
	if len(s.Ops) > 0 {
		fmt.Fprintf(tw, "\noperations\ttime\ttimes\tbytes\n")
	}
	for _, x := range s.Ops[:min(len(s.Ops), most)] {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", clip(x.Name), seconds(x.Seconds), x.Count, bytes(x.Bytes))
	}
	if n := len(s.Ops) - most; n > 0 {
		fmt.Fprintf(tw, "and %d more\n", n)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", s.Advice())
	return err
}

// clip makes a name of a file fit, and harmless for a terminal.
func clip(s string) string {
	const most = 48
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}
