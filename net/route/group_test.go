package route

import (
	"slices"
	"testing"
)

// TestGroup: hosts are the ranks that reach all of each other.
func TestGroup(t *testing.T) {
	for _, c := range []struct {
		name    string
		reached [][]int
		want    []int
	}{
		{"all apart", [][]int{nil, nil, nil}, []int{0, 1, 2}},
		{"all together", [][]int{nil, {0}, {0, 1}}, []int{0, 0, 0}},
		{"alternating", [][]int{nil, nil, {0}, {1}, {0, 2}}, []int{0, 1, 0, 1, 0}},
		{"one only reaches a part", [][]int{nil, {0}, {1}, {1, 2}}, []int{0, 0, 2, 2}},
	} {
		if got := group(c.reached); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// TestReport: what is added to a report comes out of it.
func TestReport(t *testing.T) {
	var r report
	want := make([]int, 10)
	for _, rank := range []int{0, 1, 2, 5, 7, 8} {
		want[rank] = 1 + rank/6
		r.add(rank, want[rank])
	}
	if len(r.Reached) != 3 || !slices.Equal(r.reached(10), want) {
		t.Errorf("%v: %v, expected %v", r.Reached, r.reached(10), want)
	}
}
