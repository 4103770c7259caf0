package data

import (
	"reflect"
	"testing"
)

func TestScale(t *testing.T) {
	x := []float32{1, 20000, 7, 3, 40000, 7}
	s, err := ScaleOf(x, 3)
	if want := (Scale{[]float32{2, 30000, 7}, []float32{1, 10000, 1}}); err != nil || !reflect.DeepEqual(s, want) {
		t.Fatalf("%+v, %v, expected %+v", s, err, want)
	}
	if err := s.Apply(x); err != nil || !reflect.DeepEqual(x, []float32{-1, -1, 0, 1, 1, 0}) {
		t.Errorf("%v, %v", x, err)
	}
	for _, columns := range []int{0, -1, 4} {
		if _, err := ScaleOf(x, columns); err == nil {
			t.Errorf("%d numbers in %d columns have a scale", len(x), columns)
		}
	}
	if _, err := ScaleOf(nil, 3); err == nil {
		t.Error("no rows have a scale")
	}
	for _, bad := range []Scale{{}, {Mean: []float32{1, 2, 3}}, {make([]float32, 4), make([]float32, 4)}} {
		if err := bad.Apply(x); err == nil {
			t.Errorf("%+v is applied to 3 columns", bad)
		}
	}
}
