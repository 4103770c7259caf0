package shard

import (
	"errors"
	"fmt"
	"testing"
)

// TestOneForwardOneBackward: each stage runs its actions, one a slot, and a tensor sent
// in a slot is there in the next.
func TestOneForwardOneBackward(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		for micro := 1; micro <= 8; micro++ {
			t.Run(fmt.Sprintf("%d stages, %d micro-batches", stages, micro), func(t *testing.T) {
				lists, err := OneForwardOneBackward(stages, micro)
				if err != nil {
					t.Fatal(err)
				}
				type message struct {
					kind     ActionKind
					to, what int
				}
				there := map[message]bool{}
				at, live, most := make([]int, stages), make([]int, stages), make([]int, stages)
				forward, backward := make([]int, stages), make([]int, stages)
				slot := 0
				for ; ; slot++ {
					if slot > 4*(stages+micro) {
						t.Fatalf("stages wait for each other at %v", at)
					}
					var sent []message
					ended := true
					for s, l := range lists {
						worked := false
						for at[s] < len(l) {
							a := l[at[s]]
							if a.Stage != s || a.Micro < 0 || a.Micro >= micro {
								t.Fatalf("stage %d has %v of stage %d", s, a, a.Stage)
							}
							stop := false
							switch a.Kind {
							case Forward, Backward:
								if stop = worked; stop {
									break
								}
								worked = true
								if a.Slot != slot {
									t.Errorf("stage %d: %v in slot %d, it says %d", s, a, slot, a.Slot)
								}
								if a.Kind == Forward {
									if a.Micro != forward[s] {
										t.Errorf("stage %d: %v, expected %d", s, a, forward[s])
									}
									forward[s]++
									live[s]++
									most[s] = max(most[s], live[s])
								} else {
									if a.Micro != backward[s] || backward[s] >= forward[s] {
										t.Errorf("stage %d: %v after %d forwards, expected %d", s, a, forward[s], backward[s])
									}
									backward[s]++
									live[s]--
								}
							case SendActivation:
								if s+1 >= stages || a.Micro >= forward[s] {
									t.Fatalf("stage %d: %v after %d forwards", s, a, forward[s])
								}
								sent = append(sent, message{RecvActivation, s + 1, a.Micro})
							case SendGradient:
								if s == 0 || a.Micro >= backward[s] {
									t.Fatalf("stage %d: %v after %d backwards", s, a, backward[s])
								}
								sent = append(sent, message{RecvGradient, s - 1, a.Micro})
							case RecvActivation, RecvGradient:
								m := message{a.Kind, s, a.Micro}
								if stop = !there[m]; !stop {
									delete(there, m)
								}
							default:
								t.Fatalf("stage %d: %v", s, a)
							}
							if stop {
								break
							}
							at[s]++
						}
						ended = ended && at[s] == len(l)
					}
					for _, m := range sent {
						if there[m] {
							t.Errorf("%v is sent twice", m)
						}
						there[m] = true
					}
					if ended {
						break
					}
				}
				if want := 2 * (micro + stages - 1); slot+1 != want {
					t.Errorf("%d slots, the formula says %d", slot+1, want)
				}
				if len(there) > 0 {
					t.Errorf("nobody received %v", there)
				}
				for s := range stages {
					if forward[s] != micro || backward[s] != micro {
						t.Errorf("stage %d: %d forwards, %d backwards of %d", s, forward[s], backward[s], micro)
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
		if _, err := OneForwardOneBackward(c[0], c[1]); !errors.Is(err, ErrMesh) {
			t.Errorf("%v gave %v", c, err)
		}
	}
}
