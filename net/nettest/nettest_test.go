package nettest

import (
	"os"
	"strings"
	"testing"
)

// TestPair: the two have their own names and memory, reach each other by the link, and
// count what they send.
func TestPair(t *testing.T) {
	hosts := ForTest(t, os.Getenv)
	for i, h := range hosts {
		out, err := h.Command(t.Context(), "sh", "-c", "hostname; ls /dev/shm | wc -l; touch /dev/shm/mine").Output()
		if err != nil || strings.Join(strings.Fields(string(out)), " ") != h.Name+" 0" {
			t.Fatalf("%s: %q, %v", h.Name, out, err)
		}
		before, err := hosts[i].Sent()
		if err != nil {
			t.Fatal(err)
		}
		// A connect to a port without a listener is refused, which takes packets both
		// ways.
		script := "exec 3<>/dev/tcp/" + hosts[1-i].Addr + "/9"
		if out, err := h.Command(t.Context(), "bash", "-c", script).CombinedOutput(); err == nil || !strings.Contains(string(out), "refused") {
			t.Fatalf("%s: %q, %v", h.Name, out, err)
		}
		if after, err := hosts[i].Sent(); err != nil || after <= before {
			t.Errorf("%s: %d bytes sent before and %d after, %v", h.Name, before, after, err)
		}
	}
	if err := hosts[0].Unplug(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := hosts[1].Command(t.Context(), "ip", "link", "show", Link).Output(); err != nil || !strings.Contains(string(state), "NO-CARRIER") {
		t.Errorf("unplugged at the other end: %q, %v", state, err)
	}
	if _, err := os.Stat("/dev/shm/mine"); err == nil {
		t.Error("a host's /dev/shm is this machine's")
	}
}
