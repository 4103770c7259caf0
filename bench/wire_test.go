package bench

import (
	"fmt"
	"testing"
)

// TestWire runs the scenario with little work: each size has a bar for checksums and a
// figure for TLS, and three measurements.
func TestWire(t *testing.T) {
	r, err := runScenario(t, "wire", &Options{Rounds: 2, Scale: 100, Self: testSelf(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Bars) != len(wireSizes) || len(r.Measurements) != 4*len(wireSizes) {
		t.Fatalf("%d bars, %d measurements; expected %d, %d", len(r.Bars), len(r.Measurements), len(wireSizes), 4*len(wireSizes))
	}
	for i, size := range wireSizes {
		if b := r.Bars[i]; b.Bar != "tcp_crc_cost_"+size.name || !(b.Value > 0) || b.Limit != maxCRCCost {
			t.Errorf("bar %+v, expected tcp_crc_cost of %s", b, size.name)
		}
		for j, name := range []string{"plain %s", "CRC %s", "TLS %s", "tcp_tls_cost_%s"} {
			if m := r.Measurements[4*i+j]; m.Case != fmt.Sprintf(name, size.name) || !(m.Median > 0) {
				t.Errorf("%+v, expected %s of %s", m, name, size.name)
			}
		}
	}
}
