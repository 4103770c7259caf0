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

func TestRanges(t *testing.T) {
	if got := ranges([]int{0, 1, 2, 5, 7, 8}); !slices.Equal(got, [][2]int{{0, 3}, {5, 6}, {7, 9}}) {
		t.Errorf("%v", got)
	}
	if got := ranges(nil); got == nil || len(got) != 0 {
		t.Errorf("%v of nothing", got)
	}
}

func TestOffers(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:80", "[::1]:80", "10.1.2.3:7"} {
		if got, err := offers(addr); err != nil || !slices.Equal(got, []string{addr}) {
			t.Errorf("%s: %v, %v", addr, got, err)
		}
	}
	for _, addr := range []string{"0.0.0.0:80", "[::]:80"} {
		got, err := offers(addr)
		if err != nil || len(got) == 0 || !slices.Contains(got, "127.0.0.1:80") || got[0] == "127.0.0.1:80" && len(got) > 2 {
			t.Errorf("%s: %v, %v", addr, got, err)
		}
	}
	if _, err := offers("x"); err == nil {
		t.Error("no error for x")
	}
}
