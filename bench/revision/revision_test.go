package revision

import (
	"os"
	"strings"
	"testing"
)

func TestCheckoutOfNoRevision(t *testing.T) {
	dir, err := Checkout("no-such-revision")
	if err == nil || !strings.Contains(err.Error(), "no-such-revision") {
		os.RemoveAll(dir)
		t.Fatalf("got %q, %v, expected an error that names the revision", dir, err)
	}
}
