package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// busFactor is by what the bytes of a buffer per second are multiplied to be those that
// each rank has to move at least, whatever the number of ranks: the definition of "busbw"
// in NCCL's tests (PERFORMANCE.md there).
func busFactor(op string, ranks int) float64 {
	n := float64(ranks)
	switch op {
	case "allreduce":
		return 2 * (n - 1) / n
	case "allgather", "reducescatter":
		return (n - 1) / n
	}
	return 1
}

// table prints the medians in the form of NCCL's tests: bytes, elements, type, operation,
// µs, GB/s, wrong elements.
func (b *collectiveBook) table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := collectiveCase{}
	for _, at := range b.order {
		if at.op != last.op || at.ranks != last.ranks || at.private != last.private {
			memory := ""
			if at.private {
				memory = ", memory of the caller's"
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(w, "\n%s, %d ranks%s\n", at.op, at.ranks, memory)
			fmt.Fprint(tw, "size\tcount\ttype\tredop\ttime\talgbw\tbusbw\t#wrong\tside\t\n(B)\t\t\t\t(us)\t(GB/s)\t(GB/s)\t\t\t\n")
		}
		last = at.collectiveCase
		redop := "none"
		if at.op == "allreduce" || at.op == "reducescatter" {
			redop = "sum"
		}
		width := 4
		if at.dtype != "f32" {
			width = 2
		}
		us := quantile(b.cells[at].medians(), 0.5)
		rate := float64(at.bytes) / us / 1e3
		fmt.Fprintf(tw, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\t\n", at.bytes, at.bytes/width, at.dtype, redop,
			figure(us), figure(rate), figure(rate*busFactor(at.op, at.ranks)), b.wrong[at], at.side)
	}
	return tw.Flush()
}
