package outcome

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		text, _ := s.MarshalText()
		var back Outcome
		if err := back.UnmarshalText(text); err != nil || back != s || seen[string(text)] {
			t.Errorf("%d: name %q came back as %v, %v", s, text, back, err)
		}
		seen[string(text)] = true
	}
	if len(seen) != 28 {
		t.Errorf("%d outcomes, expected the specification's 27 and SPOOL", len(seen))
	}
	if new(Outcome).UnmarshalText([]byte("FINE")) == nil || Outcome(200).Valid() {
		t.Error("an unknown outcome was accepted")
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, OK},
		{fmt.Errorf("peer 3: %w", Errorf(CodeRange, "code 9")), CodeRange},
		{context.DeadlineExceeded, Timeout},
		{context.Canceled, Cancelled},
		{errors.New("reset"), Network},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%v is %v, expected %v", c.err, got, c.want)
		}
	}
}

func TestRetryable(t *testing.T) {
	n := 0
	for _, s := range All() {
		if s.Retryable() {
			n++
		}
	}
	if n != 5 || Forbidden.Retryable() || !NotFound.Retryable() {
		t.Errorf("%d outcomes are retryable, expected 5 with NOT_FOUND and without FORBIDDEN", n)
	}
}
