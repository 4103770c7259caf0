package tcp

import (
	"slices"
	"testing"
)

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
