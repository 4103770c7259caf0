package page

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// gauges are the counters of dispatchers and workers that also fall.
var gauges = map[string]bool{
	metrics.Sessions: true, metrics.Clients: true, metrics.Workers: true, metrics.Waiting: true, metrics.PID: true,
	metrics.DeviceBytes: true, metrics.DeviceUsed: true, metrics.Backlog: true, metrics.BacklogBytes: true,
	metrics.ArenaBytes: true, metrics.ArenaInUse: true, metrics.ProgramsKept: true, metrics.ProgramBytes: true,
	metrics.Plans: true, metrics.PlanBytes: true,
}

// family is a metric and its values, each with its labels.
type family struct {
	kind  string
	lines []string
}

// families are metrics by name.
type families map[string]*family

// add adds a value; labels are names and values in turn.
func (f families) add(kind, name string, value float64, labels ...string) {
	name = "ringside_" + name
	if kind == counter {
		name += "_total"
	}
	x := f[name]
	if x == nil {
		x = &family{kind: kind}
		f[name] = x
	}
	line := append(make([]byte, 0, 128), name...)
	for i := 0; i < len(labels); i += 2 {
		line = append(line, "{,"[min(i, 1)])
		line = append(append(append(line, labels[i]...), `="`...), escape(labels[i+1])...)
		line = append(line, '"')
	}
	if len(labels) > 0 {
		line = append(line, '}')
	}
	line = strconv.AppendFloat(append(line, ' '), value, 'g', -1, 64)
	x.lines = append(x.lines, string(line))
}

const (
	counter = "counter"
	gauge   = "gauge"
)

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// escape is a label's value as the format has it.
func escape(s string) string { return escapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }

// counted adds a counter of a dispatcher or of a worker. Times become seconds. A name
// that no metric can have is left out: it could end its line and begin another.
func (f families) counted(prefix, name string, value uint64, labels ...string) {
	if strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) >= 0 {
		return
	}
	kind, x := counter, float64(value)
	if gauges[name] {
		kind = gauge
	}
	if in, ok := strings.CutSuffix(name, "_ns"); ok {
		name, x = in+"_seconds", x/1e9
	}
	f.add(kind, prefix+name, x, labels...)
}

// dispatcherOf adds what the dispatcher counts, also about each worker.
func (f families) dispatcherOf(s *metrics.Sample) {
	workers := metrics.WorkersOf(s.Dispatcher)
	for _, c := range s.Dispatcher {
		if !strings.Contains(c.Name, ".") { // the others are about workers
			f.counted("dispatcher_", c.Name, c.Value)
		}
	}
	for _, w := range workers {
		get := func(name string) uint64 { return s.Dispatcher.Get(metrics.OfWorker(w, name)) }
		f.add(gauge, "dispatcher_worker_info", 1, "worker", w, "device", metrics.DeviceOf(s.Dispatcher, w), "pid", fmt.Sprint(get(metrics.PID)))
		for _, name := range []string{metrics.Messages, metrics.Bytes} {
			f.counted("dispatcher_worker_", name, get(name), "worker", w)
		}
		for _, name := range []string{metrics.Sessions, metrics.Queued, metrics.DeviceBytes, metrics.DeviceUsed, metrics.Occupied, metrics.Far} {
			f.add(gauge, "dispatcher_worker_"+name, float64(get(name)), "worker", w)
		}
	}
}

// workersOf adds what workers count, for all their sessions and for each.
func (f families) workersOf(s *metrics.Sample) {
	for _, w := range slices.Sorted(maps.Keys(s.Workers)) {
		a := s.Workers[w]
		if a.Watched == nil {
			continue
		}
		f.add(gauge, "worker_answer_age_seconds", max(s.At.Sub(a.At).Seconds(), 0), "worker", w)
		for _, c := range a.Counters {
			switch op, isOp := strings.CutPrefix(c.Name, metrics.OfOp("")); {
			case isOp:
				f.add(counter, "worker_operations", float64(c.Value), "worker", w, "operation", op)
			case !strings.Contains(c.Name, "."): // those of paths have no end
				f.counted("worker_", c.Name, c.Value, "worker", w)
			}
		}
		for _, x := range a.Sessions {
			labels := []string{"worker", w, "session", fmt.Sprint(x.ID), "name", x.Name}
			f.add(counter, "session_runs", float64(x.Runs), labels...)
			f.add(counter, "session_busy_seconds", float64(x.Busy)/1e9, labels...)
			f.add(counter, "session_waiting_seconds", float64(x.Waiting)/1e9, labels...)
			f.add(gauge, "session_backlog", float64(x.Backlog), labels...)
			f.add(gauge, "session_bytes", float64(x.Bytes), labels...)
		}
	}
}

// trainingsOf adds how far training runs are.
func (f families) trainingsOf(all []metrics.Training) {
	for _, t := range all {
		labels := []string{"run", fmt.Sprint(t.Run), "model", t.Name, "pid", fmt.Sprint(t.PID)}
		over := 0.0
		if t.Over {
			over = 1
		}
		f.add(gauge, "training_step", float64(t.Step), labels...)
		f.add(gauge, "training_steps", float64(t.Steps), labels...)
		f.add(gauge, "training_loss", t.Loss, labels...)
		f.add(gauge, "training_learning_rate", t.LR, labels...)
		f.add(gauge, "training_items_per_second", t.Rate, labels...)
		f.add(gauge, "training_left_seconds", t.Left, labels...)
		f.add(gauge, "training_over", over, labels...)
	}
}

// writePrometheus writes a sample, nil where there is none, in Prometheus' text format
// 0.0.4.
func writePrometheus(out io.Writer, s *metrics.Sample, trainings []metrics.Training) error {
	f := families{}
	if s != nil {
		f.dispatcherOf(s)
		f.workersOf(s)
	}
	f.trainingsOf(trainings)
	up := 0.0
	if s != nil {
		up = 1
		f.add(gauge, "sample_age_seconds", max(time.Since(s.At).Seconds(), 0))
	}
	f.add(gauge, "dispatcher_answers", up)
	w := bufio.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(w, "# TYPE %s %s\n", name, f[name].kind)
		for _, line := range f[name].lines {
			fmt.Fprintln(w, line)
		}
	}
	return w.Flush()
}
