package tensor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestLostNames: the error of a lost engine counts the tensors and lists the names of
// those that still exist. Names keep no tensor alive.
func TestLostNames(t *testing.T) {
	s, r := newRecorded(t)
	var all []Named
	for i := range 10 {
		all = append(all, Named{Name: fmt.Sprintf("layer%d", i), T: From(s, []float32{1})})
	}
	s.Name(all...)
	other := From(s, []float32{2})
	all[0].T.Free()
	all[1].T = nil
	for range 2 { // the session holds the values of its last program
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; s.labels[1].t.Value() != nil; i++ {
		if i == 100 {
			t.Fatal("a name keeps its tensor alive")
		}
		runtime.GC()
	}
	gone := fmt.Errorf("worker w0 died: %w", ErrLost)
	r.fail = gone
	err := s.Sync()
	if !errors.Is(err, ErrLost) || !strings.HasPrefix(err.Error(), gone.Error()+"; ") || !strings.Contains(err.Error(), " tensors are lost with it: layer2, layer3") ||
		strings.Contains(err.Error(), "layer0") || strings.Contains(err.Error(), "layer1,") {
		t.Errorf("%v, expected layers 2 and up", err)
	}
	if again := s.Sync(); again == nil || again.Error() != err.Error() {
		t.Errorf("then %v", again)
	}
	runtime.KeepAlive(other)
	runtime.KeepAlive(all)

	s, r = newRecorded(t)
	x := From(s, []float32{1})
	_ = s.Flush()
	r.fail = gone
	if err := s.Sync(); err == nil || !strings.HasSuffix(err.Error(), "; 1 tensor is lost with it") {
		t.Errorf("without names: %v", err)
	}
	r.fail = ErrNoSpace
	s.ClearErr()
	if err := s.Sync(); err == nil || strings.Contains(err.Error(), "lost") {
		t.Errorf("another error: %v", err)
	}
	runtime.KeepAlive(x)
}
