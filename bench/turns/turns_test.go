package turns

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/bench"
)

func TestTable(t *testing.T) {
	var table Table
	for _, turn := range [][2]float64{{10, 11}, {20, 21}, {10, 10}} {
		var sides [2][]bench.Measurement
		for i, v := range turn {
			sides[i] = []bench.Measurement{
				{Bench: "step", Case: "time", Unit: "ms", Median: v, Min: v - 2, Max: v + 1},
				{Bench: "step", Case: "rate", Unit: "1/s", Median: 1 / v, Min: 1 / (v + 1), Max: 1 / (v - 2)},
				{Bench: "step", Case: "count", Unit: "faults", Median: v, Min: v, Max: v},
			}
		}
		sides[1] = append(sides[1], bench.Measurement{Bench: "step", Case: "new", Unit: "ms", Median: 1, Min: 1, Max: 1})
		table.Add(sides[0], sides[1])
	}
	var b strings.Builder
	missed, err := table.Write(&b, 1.03)
	if err != nil {
		t.Fatal(err)
	}
	const want = `| case | unit | before | now | ratio | of single turns | of the best rounds |
|---|---|---|---|---|---|---|
| step: time | ms | 10 | 11 | missed, 1.100 | 1.00 to 1.10 | 1.000 |
| step: rate | 1/s | 0.1 | 0.09091 | missed, 1.100 | 1.00 to 1.10 | 1.000 |

Of 2 cases 0 are within 1.03 by medians, 2 by their best rounds.
`
	if missed != 2 || b.String() != want {
		t.Errorf("%d missed:\n%s\nexpected 2 and:\n%s", missed, b.String(), want)
	}
	b.Reset()
	if missed, _ = table.Write(&b, 1.2); missed != 0 {
		t.Errorf("with a limit of 1.2, %d are missed: %s", missed, b.String())
	}
}

func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"bench":"step","case":"cluster","unit":"ms","median":4}` + "\n" + `{"bench":"step","bar":"x","value":1,"ok":true}` + "\n"))
	if err != nil || len(got) != 1 || got[0].Case != "cluster" || got[0].Median != 4 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parse([]byte(`{"bench":`)); err == nil {
		t.Error("half a line is no error")
	}
}
