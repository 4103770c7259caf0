package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/train"
)

// outcome is what train --json ends with.
type outcome struct {
	*train.Summary
	*Traffic
	// PlanCacheHits and the like are of the engine in this process.
	PlanCacheHits    *uint64 `json:"plan_cache_hits,omitempty"`
	PlanCacheMisses  *uint64 `json:"plan_cache_misses,omitempty"`  // programs compiled
	PlanCacheEvicted *uint64 `json:"plan_cache_evicted,omitempty"` // to make room
	PlanCachePlans   *int    `json:"plan_cache_plans,omitempty"`   // that are there
	PlanCacheBytes   *int    `json:"plan_cache_bytes,omitempty"`   // of encoded programs
	Saved            string  `json:"saved,omitempty"`              // the file of weights
	Error            string  `json:"error,omitempty"`
}

// left says what a run that was stopped leaves, and how it goes on. In JSON the object
// itself says so.
func (o *outcome) left(asJSON bool) string {
	switch {
	case asJSON:
		return ""
	case o.Checkpoint != "":
		return fmt.Sprintf("--resume %s goes on from step %d, with the same --model", shellWord(o.Checkpoint), o.Steps)
	case o.Saved != "":
		return fmt.Sprintf("the weights are in %s; with --checkpoint DIR the run could go on", plain.Name(o.Saved))
	}
	return "nothing was kept: --checkpoint DIR keeps a run that can go on"
}

// mean returns "1 collective", "2.5 collectives".
func mean(x float64, what string) string {
	if x != 1 {
		what += "s"
	}
	return fmt.Sprintf("%.4g %s", x, what)
}

// write prints the summary for people.
func (o *outcome) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, cell(fmt.Sprintf(format, a...)))
	}
	row("model", "%s, %d parameters", o.Model, o.Parameters)
	row("data", "%s", plain.Name(o.Data))
	row("engine", "%s", o.Engine)
	done := fmt.Sprintf("%d of batch %d in %.1f s, %.0f a second, %s %s a second", o.Steps-o.Resumed, o.Batch, o.Seconds, o.Rate, count(o.Items), o.Unit)
	if o.Accumulate > 1 {
		done += fmt.Sprintf("; %d batches a step", o.Accumulate)
	}
	if o.Stopped {
		done += fmt.Sprintf("; stopped before step %d", o.Planned)
	}
	row("steps", "%s", done)
	if o.Traffic != nil && o.MessagesPerStep != nil {
		row("messages", "%.3g a step of %.0f bytes, %s, %s sent, %s through the dispatcher",
			*o.MessagesPerStep, *o.BytesPerStep, mean(*o.RoundTripsPerStep, "round trip"), plain.Count(o.ProgramBodies, "program"), plain.Count(o.TensorBytes, "tensor byte"))
	}
	if o.Traffic != nil && o.CollectivesPerStep != nil {
		hidden := ""
		if o.CollectivesHidden != nil {
			hidden = fmt.Sprintf("; they take %.2f ms of it, %.0f %% of that beside programs", 1000**o.CollectiveSeconds, 100**o.CollectivesHidden)
		}
		row("workers", "%d: %s a step, in which a worker sends %s bytes at most%s", o.Workers, mean(*o.CollectivesPerStep, "collective"), count(*o.MovedPerStep), hidden)
	}
	if o.Traffic != nil {
		for _, p := range o.Paths {
			row("path", "%s", p)
		}
	}
	if len(o.Losses) > 0 { // none, if an error came before the first was read
		row("loss", "%.4f, of the last batch", o.Loss)
	}
	if o.Accuracy != nil {
		row("test accuracy", "%.2f %%", 100**o.Accuracy)
	}
	if o.BitsPerByte != nil {
		row("held out", "%.3f bits per byte", *o.BitsPerByte)
	}
	if o.Resumed > 0 {
		row("resumed", "at step %d", o.Resumed)
	}
	if o.Restarts > 0 {
		row("restarted", "%s, as workers were gone", plain.Count(o.Restarts, "time"))
	}
	if o.ExactWeights != "" {
		row("weights", "sha256 %s, in %d parts a batch", o.ExactWeights, o.Exact)
	}
	if o.Saved != "" {
		row("saved", "%s", plain.Name(o.Saved))
	}
	if o.Checkpoint != "" {
		row("checkpoint", "%s", plain.Name(o.Checkpoint))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if drawn := curve(o.Losses); drawn != "" {
		if _, err := fmt.Fprintf(w, "loss by step:\n%s", drawn); err != nil {
			return err
		}
	}
	if o.Sample != "" {
		if _, err := fmt.Fprintf(w, "sample:\n%s\n", printable(o.Sample)); err != nil {
			return err
		}
	}
	return nil
}
