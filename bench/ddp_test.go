package bench

import (
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestDDP: both sides train the same, ours with collectives, and all that is to be
// measured is.
func TestDDP(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("two processes of PyTorch take their time to start")
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	r, err := runScenario(t, "ddp", &Options{Rounds: 1, Scale: 20, Only: "qwen_t64_b8", Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Measurements) != 4 || len(r.Bars) != 2 || r.Bars[0].Bar != "ddp_losses" || !r.Bars[0].OK || r.Bars[1].Bar != "train_2w_over_ddp" || !(r.Bars[1].Value > 0) {
		t.Errorf("%+v", r)
	}
}
