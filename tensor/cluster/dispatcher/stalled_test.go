package dispatcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestStalledDisk has workers die while the disk stalls that the last events are written
// to. Each client is told at once, and another session goes on. So many errors as files
// may wait name theirs, which are all written when the disk goes on, each with its own
// cause.
func TestStalledDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flight")
	f := prepare(t, dispatcher.Options{Flight: dir})
	until := make(chan struct{})
	dispatcher.StallFlight(f.d, until)
	f.serve()
	w, c := f.dial(ipc.RoleWorker, "honest"), f.dial(ipc.RoleClient, "honest")
	honest := f.open(c, w, "honest")

	files := map[string]string{} // what each is to have
	for i := range dispatcher.FlightWrites + 1 {
		name := fmt.Sprint("w", i)
		dies, client := f.dial(ipc.RoleWorker, name), f.dial(ipc.RoleClient, "a")
		f.open(client, dies, "lost")
		dies.Close()
		body, _ := client.recv(wire.KindFail)
		var m wire.Fail
		if err := wire.Parse(body, &m); err != nil {
			t.Fatal(err)
		}
		cause := fmt.Sprintf("worker %q (pid ", name)
		named := regexp.MustCompile(`; the dispatcher's last events are in (\S+)$`).FindStringSubmatch(m.Text)
		if !strings.HasPrefix(m.Text, cause) || (named != nil) != (i < dispatcher.FlightWrites) {
			t.Errorf("%d workers are lost: %q", i+1, m.Text)
		}
		if named != nil {
			files[named[1]] = cause
		}
		c.send(wire.KindRun, message(honest, 10, byte(i)))
		w.recv(wire.KindRun)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the disk does not stall: %v", err)
	}
	close(until)
	f.shutDown(fmt.Errorf("the disk goes on")) // waits for the files
	for file, cause := range files {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), cause) || !strings.HasPrefix(file, dir) {
			t.Errorf("%s: %v, %q; expected the events before %s was lost", file, err, text, cause)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != len(files) || len(files) != dispatcher.FlightWrites {
		t.Errorf("%d files, %v; %d are named, expected %d", len(all), err, len(files), dispatcher.FlightWrites)
	}
}
