package launch

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
)

const (
	// eventsSuffix is that of the files of package collective.
	eventsSuffix = ".events"

	// mostEvents bounds the events of a rank's attempts: some files of collective's.
	mostEvents = 1 << 30

	// fetchFor bounds the time that a host has to send its events.
	fetchFor = time.Minute
)

// EventsOf returns the folder in dir, as of Options.Events, with the events of the ranks
// on the host of that index in Options.Hosts: dir itself for this host.
func EventsOf(dir string, hosts []Host, index int) string {
	if hosts[index].Name == Localhost {
		return dir
	}
	return filepath.Join(dir, "host"+strconv.Itoa(index))
}

// farEvents returns the folder on another host in which its ranks write.
func (s *settled) farEvents(host int) string {
	return "/tmp/ringside-events-" + s.runID + "-" + strconv.Itoa(host)
}

// fetchEvents fetches the events of other hosts, from all at once, and removes them
// there. It returns how long that took, 0 if no host had any.
func (s *settled) fetchEvents() time.Duration {
	if s.Events == "" {
		return 0
	}
	began := time.Now()
	var all sync.WaitGroup
	seen := map[int]bool{}
	for _, p := range s.places {
		if p.name == Localhost || seen[p.host] {
			continue
		}
		seen[p.host] = true
		all.Go(func() {
			if err := s.fetchFrom(p.host, p.locals); err != nil {
				s.Logger.Warn("the events of a host are missing", "host", p.name, "error", err)
			}
		})
	}
	if len(seen) == 0 {
		return 0
	}
	all.Wait()
	return time.Since(began)
}

// fetchFrom fetches the events of so many ranks of a host.
func (s *settled) fetchFrom(host, ranks int) error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchFor)
	defer cancel()
	from, to := quote(s.farEvents(host)), EventsOf(s.Events, s.Hosts, host)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	// Ranks that never called Init have made no folder.
	command := fmt.Sprintf("if [ -d %[1]s ]; then tar -C %[1]s -cf - . && rm -r %[1]s; fi", from)
	cmd := exec.CommandContext(ctx, s.RemoteShell[0], append(append([]string(nil), s.RemoteShell[1:]...), s.Hosts[host].Name, command)...)
	cmd.Env = s.Environ
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = output
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = unpackEvents(out, to, int64(ranks)*mostEvents)
	if err != nil {
		cancel()
	}
	if e := cmd.Wait(); err == nil && e != nil {
		err = fmt.Errorf("%w: %.200q", e, said.String())
	}
	return err
}

// unpackEvents writes the files of events in a tar of at most that many bytes to a
// folder.
func unpackEvents(from io.Reader, dir string, most int64) error {
	limited := &io.LimitedReader{R: from, N: most}
	in := tar.NewReader(limited)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, limited) // so that tar can end
			return err
		}
		if err != nil {
			return fmt.Errorf("its archive: %w", err)
		}
		name := filepath.Base(h.Name)
		if h.Typeflag != tar.TypeReg || filepath.Ext(name) != eventsSuffix {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return plain.Path(err)
		}
		_, err = io.Copy(f, in)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("its file %.40q: %w", name, plain.Path(err))
		}
	}
}
