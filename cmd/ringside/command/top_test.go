package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gdamore/tcell/v2"

	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// topReport is a report with two runs, of which the first is over.
func topReport() *metrics.Report {
	r := &metrics.Report{Time: time.Unix(0, 0), Dispatcher: metrics.Dispatcher{Clients: 2, Sessions: 3},
		Workers:  []metrics.Worker{{Name: "w0", Busy: 1, Waiting: 0.5, Runs: 77}, {Name: "w1", Silent: 2.5}},
		Sessions: []metrics.Session{{ID: 1, Name: "s", Worker: "w0"}}, Ops: map[string]float64{"matmul": 5}}
	for run := range 2 {
		t := metrics.Training{Run: uint64(run + 1), PID: uint64(100 + run), Name: fmt.Sprintf("model%d", run), Step: 50, Steps: 200, Loss: 1.25, LR: 1e-3, Left: 61, Over: run == 0}
		for i := range 50 {
			t.Curve = append(t.Curve, metrics.Point{Step: uint64(i + 1), Loss: 50.25 - float64(i), LR: 1e-3})
		}
		r.Trainings = append(r.Trainings, t)
	}
	return r
}

// seenScreen keeps the text that it showed last.
type seenScreen struct {
	tcell.SimulationScreen
	mu   sync.Mutex
	text string
}

// Show is called by the goroutine that draws.
func (s *seenScreen) Show() {
	s.SimulationScreen.Show()
	cells, cols, _ := s.GetContents()
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(string(c.Runes))
		if i%cols == cols-1 {
			b.WriteByte('\n')
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = b.String()
}

func (s *seenScreen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// TestTopPrintable: names that other processes chose change nothing of the terminal.
func TestTopPrintable(t *testing.T) {
	const hostile = "\x1b]0;title\a\nname"
	r := topReport()
	r.Ops = map[string]float64{hostile: 5}
	r.Workers = append(r.Workers, metrics.Worker{Name: hostile, Device: hostile, GPU: &metrics.GPU{}})
	r.Sessions = append(r.Sessions, metrics.Session{Name: hostile, Worker: hostile})
	r.Trainings[1].Name = hostile
	var b strings.Builder
	if err := writeTop(&b, r, 0); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `\x1b]0;title`); n != 7 || strings.ContainsAny(b.String(), "\x1b\a") {
		t.Errorf("%d of 7 names in %q", n, b.String())
	}
}

// TestTopScreen: both sizes have the figures and the curve, and keys do what the last
// line says.
func TestTopScreen(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		s := &seenScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
		if err := s.Init(); err != nil {
			t.Fatal(err)
		}
		s.SetSize(size[0], size[1])
		reports, over := make(chan *metrics.Report), make(chan error)
		go func() {
			over <- newTopScreen(s).run(t.Context(), func(ctx context.Context, each func(*metrics.Report) error) error {
				for {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case r := <-reports:
						if err := each(r); err != nil {
							return err
						}
					}
				}
			})
		}()
		until := func(want string) {
			t.Helper()
			for !regexp.MustCompile(want).MatchString(s.shown()) {
				if t.Context().Err() != nil {
					t.Fatalf("%v: no %q in\n%s", size, want, s.shown())
				}
			}
		}
		until("asking")
		reports <- topReport()
		until(`(?s)2 clients, 3 sessions.*model1 +101 +50 +200 +1\.2500.*loss of model1, process 101.*50\.25 \|\*.*worker .*q quit`)
		if wide := strings.Contains(s.shown(), "learning rate  ") && strings.Contains(s.shown(), "operations/s: matmul 5"); wide != (size[0] == 200) {
			t.Errorf("%v:\n%s", size, s.shown())
		}
		s.InjectKey(tcell.KeyTab, 0, 0)
		until("loss of model0, process 100")
		s.InjectKey(tcell.KeyRune, ' ', 0)
		until("paused ")
		changed := topReport()
		changed.Dispatcher.Clients = 9
		reports <- changed // it is not shown
		s.InjectKey(tcell.KeyRune, ' ', 0)
		until("(?m)^(?:[^p]|p[^a])*q quit")
		reports <- changed
		until("9 clients")
		if size[1] == 24 {
			s.InjectKey(tcell.KeyPgDn, 0, 0)
			until("operations/s: matmul 5")
			s.InjectKey(tcell.KeyHome, 0, 0)
			until("9 clients")
		}
		s.InjectKey(tcell.KeyRune, 'q', 0)
		if err := <-over; err != nil {
			t.Errorf("%v: %v", size, err)
		}
		s.Fini()
	}
}

// TestTopScreenEnds: an error of the dispatcher ends it, and is returned.
func TestTopScreenEnds(t *testing.T) {
	s := tcell.NewSimulationScreen("UTF-8")
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	gone := errors.New("gone")
	err := newTopScreen(s).run(t.Context(), func(context.Context, func(*metrics.Report) error) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("%v, expected %v", err, gone)
	}
}

// terminalText collects what a terminal got.
type terminalText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *terminalText) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(b)
}

func (x *terminalText) has(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return bytes.Contains(x.b.Bytes(), []byte(text))
}

// TestTopOnATerminal: top as a process of its own on a terminal draws a screen, follows
// its size, ends by q, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	addr := busyCluster(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "top", "--connect", addr, "--interval", "50ms")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	text, read := &terminalText{}, make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(text, tty) // EIO when the process has ended
	}()
	until := func(want string) {
		t.Helper()
		for !text.has(want) {
			if t.Context().Err() != nil {
				t.Fatalf("no %q", want)
			}
			select {
			case <-read:
				t.Fatalf("it ended without %q: %q", want, text.b.String())
			default:
			}
		}
	}
	until("\x1b[?1049h") // another screen
	until("summer")
	if text.has("collectives/s") {
		t.Error("80 columns have room for collectives/s")
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 200, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	until("collectives/s")
	if _, err := tty.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	<-read
	if !text.has("\x1b[?1049l") {
		t.Error("it did not go back to the screen before")
	}
}
