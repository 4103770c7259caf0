package shard

import (
	"errors"
	"fmt"
	"testing"
)

// TestPipelineOrder checks that each stage runs its actions in order, one a slot, and
// that a tensor that an action sends was made in an earlier slot.
func TestPipelineOrder(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		for micro := 1; micro <= 8; micro++ {
			t.Run(fmt.Sprintf("%d stages, %d micro-batches", stages, micro), func(t *testing.T) {
				order, err := PipelineOrder(stages, micro)
				if err != nil {
					t.Fatal(err)
				}
				type action struct {
					kind         ActionKind
					stage, micro int
				}
				slots := map[action]int{} // of the actions so far
				before := func(a Action, kind ActionKind, stage int) {
					if at, ok := slots[action{kind, stage, a.Micro}]; !ok || at >= a.Slot {
						t.Errorf("stage %d: %v in slot %d, before the %v of stage %d", a.Stage, a, a.Slot, kind, stage)
					}
				}
				next, live, most := map[action]int{}, make([]int, stages), make([]int, stages)
				busy, last := make([]int, stages), 0
				for _, a := range order {
					if a.Stage < 0 || a.Stage >= stages || a.Slot < last {
						t.Fatalf("%v of stage %d in slot %d after slot %d", a, a.Stage, a.Slot, last)
					}
					if last = a.Slot; busy[a.Stage] > a.Slot {
						t.Errorf("stage %d: a second action in slot %d, %v", a.Stage, a.Slot, a)
					}
					busy[a.Stage] = a.Slot + 1
					kind := action{kind: a.Kind, stage: a.Stage}
					if a.Micro != next[kind] {
						t.Errorf("stage %d: %v, expected %d", a.Stage, a, next[kind])
					}
					next[kind]++
					if a.Kind == Forward {
						if a.Stage > 0 {
							before(a, Forward, a.Stage-1)
						}
						live[a.Stage]++
						most[a.Stage] = max(most[a.Stage], live[a.Stage])
					} else {
						if before(a, Forward, a.Stage); a.Stage < stages-1 {
							before(a, Backward, a.Stage+1)
						}
						live[a.Stage]--
					}
					slots[action{a.Kind, a.Stage, a.Micro}] = a.Slot
				}
				if want := 2 * (micro + stages - 1); last+1 != want {
					t.Errorf("%d slots, the formula says %d", last+1, want)
				}
				for s := range stages {
					if f, b := next[action{kind: Forward, stage: s}], next[action{kind: Backward, stage: s}]; f != micro || b != micro {
						t.Errorf("stage %d: %d forwards, %d backwards of %d", s, f, b, micro)
					}
					if want := min(stages-s, micro); most[s] != want {
						t.Errorf("stage %d: %d activations at once, the formula says %d", s, most[s], want)
					}
				}
			})
		}
	}
}

func TestNoPipeline(t *testing.T) {
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 4}, {2, MaxActions}, {MaxActions, 2}, {1 << 40, 1 << 40}} {
		if _, err := PipelineOrder(c[0], c[1]); !errors.Is(err, ErrMesh) {
			t.Errorf("%v gave %v", c, err)
		}
	}
}
