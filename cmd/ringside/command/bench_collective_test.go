package command

import (
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for s, want := range map[string]int{"4": 4, "64K": 64 << 10, "1M": 1 << 20, "256M": 256 << 20} {
		if n, err := byteSize(s); err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", s, n, err, want)
		}
	}
	for _, s := range []string{"", "0", "-4", "3", "K", "1G", "257M", "9223372036854775807K", "4 "} {
		if n, err := byteSize(s); err == nil {
			t.Errorf("%q: %d, want an error", s, n)
		}
	}
}

func TestCollectiveFlags(t *testing.T) {
	for _, c := range []struct{ says, args string }{
		{"--ranks is for the scenario collective", "bench step --ranks 2"},
		{"--ranks 1: expected 2 to 8", "bench collective --ranks 1"},
		{"--ranks 3: expected", "bench collective --hosts 2 --ranks 3"},
		{"--hosts 3: expected 1 or 2", "bench collective --hosts 3"},
		{"--sizes 5: expected a multiple of 4", "bench collective --sizes 5"},
		{"--ops sum: expected allreduce", "bench collective --ops sum"},
		{"--dtypes f64: expected f32", "bench collective --dtypes f64"},
		{"--sides MPI: expected ringside", "bench collective --sides MPI"},
	} {
		t.Run(c.args, func(t *testing.T) {
			failed(t, 2, []string{c.says}, strings.Fields(c.args)...)
		})
	}
}
