package cpu

import (
	"errors"
	"fmt"
	"testing"
)

func newTestPool(t testing.TB, n int) *pool {
	var lanes []*run
	for i := range n {
		lanes = append(lanes, &run{part: i, parts: n})
	}
	lanes[0].parts = 1
	p := newPool(lanes)
	t.Cleanup(p.close)
	return p
}

// TestPoolJobs wants every part of every job to be done once, however late helpers come,
// and errors to be those of their own job.
func TestPoolJobs(t *testing.T) {
	for _, n := range []int{2, 3, 7} {
		p := newTestPool(t, n)
		for job := range 3000 {
			parts := n
			if job%3 == 1 {
				parts = 1 + job%maxParts
			}
			done := make([]int, parts)
			fail := errors.New("no")
			err := p.run(func(r *run) error {
				done[r.part]++
				if r.parts != parts {
					return fmt.Errorf("%d parts, expected %d", r.parts, parts)
				}
				if job%10 == 3 && r.part > 0 {
					return fmt.Errorf("part %d of job %d: %w", r.part, job, fail)
				}
				return nil
			}, parts)
			for part, times := range done {
				if times != 1 {
					t.Fatalf("part %d of job %d was done %d times", part, job, times)
				}
			}
			if want := job%10 == 3 && parts > 1; errors.Is(err, fail) != want || !want && err != nil {
				t.Fatalf("job %d: %v", job, err)
			}
			if err != nil && err.Error() != fmt.Sprintf("part 1 of job %d: no", job) {
				t.Fatalf("job %d: %v is not the first part's", job, err)
			}
			if job%500 == 0 {
				p.begin() // for nothing
				p.end()
			}
		}
	}
}

// BenchmarkPool times sharing while helpers spin.
func BenchmarkPool(b *testing.B) {
	p := newTestPool(b, 2)
	for b.Loop() {
		if err := p.run(func(*run) error { return nil }, 2); err != nil {
			b.Fatal(err)
		}
	}
}
