package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/train"
)

const (
	topLeastCurve = 5  // rows of a curve on a low terminal
	topMostCurve  = 14 // on a high one
	topWide       = 150
	topKeys       = "q quit   tab next run   space pause   arrows scroll"
)

// topScreen is a terminal on which top draws. One goroutine uses it.
type topScreen struct {
	screen tcell.Screen
	report *metrics.Report // nil before the first
	chosen int             // whose curve is drawn: an index of the runs in their order
	first  int             // line at the top
	paused bool
}

func newTopScreen(screen tcell.Screen) *topScreen { return &topScreen{screen: screen} }

// errQuit ends follow when a key asks for the end.
var errQuit = errors.New("a key was pressed to quit")

// run draws reports until ctx is done, a key ends it, or there are none any more.
func (t *topScreen) run(ctx context.Context, reports func(context.Context, func(*metrics.Report) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events, quit := make(chan tcell.Event), make(chan struct{})
	go t.screen.ChannelEvents(events, quit)
	defer close(quit)
	news, over := make(chan *metrics.Report), make(chan error, 1)
	go func() {
		over <- reports(ctx, func(r *metrics.Report) error {
			select {
			case news <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.draw()
	for {
		select {
		case r := <-news:
			if t.paused {
				continue
			}
			t.report = r
		case e, ok := <-events:
			if !ok { // the terminal is gone
				cancel(errQuit)
				events = nil
				continue
			}
			if t.key(e) {
				cancel(errQuit)
			}
		case err := <-over:
			if errors.Is(context.Cause(ctx), errQuit) {
				return nil
			}
			return err
		}
		t.draw()
	}
}

// key acts on an event, and reports whether it ends the program.
func (t *topScreen) key(e tcell.Event) (quit bool) {
	switch e := e.(type) {
	case *tcell.EventResize:
		t.screen.Sync()
	case *tcell.EventKey:
		_, rows := t.screen.Size()
		switch e.Key() {
		case tcell.KeyCtrlC, tcell.KeyEscape:
			return true
		case tcell.KeyTab:
			t.chosen++
		case tcell.KeyUp:
			t.first--
		case tcell.KeyDown:
			t.first++
		case tcell.KeyPgUp:
			t.first -= rows - 2
		case tcell.KeyPgDn:
			t.first += rows - 2
		case tcell.KeyHome:
			t.first = 0
		case tcell.KeyRune:
			switch e.Rune() {
			case 'q':
				return true
			case ' ':
				t.paused = !t.paused
			}
		}
	}
	return false
}

// styled is a line of the screen.
type styled struct {
	text  string
	style tcell.Style
}

var (
	plainStyle   = tcell.StyleDefault
	headingStyle = tcell.StyleDefault.Bold(true)
	dimStyle     = tcell.StyleDefault.Dim(true)
	curveStyle   = tcell.StyleDefault.Foreground(tcell.ColorTeal)
	barStyle     = tcell.StyleDefault.Reverse(true)
)

// draw draws the newest report.
func (t *topScreen) draw() {
	cols, rows := t.screen.Size()
	t.screen.Clear()
	lines := []styled{{"asking…", plainStyle}}
	if t.report != nil {
		lines = t.lines(cols, rows)
	}
	room := max(rows-1, 1)
	t.first = max(min(t.first, len(lines)-room), 0)
	for y, l := range lines[t.first:min(len(lines), t.first+room)] {
		t.write(y, cols, l)
	}
	if rows > 1 {
		keys := topKeys
		if t.paused {
			keys = "paused   " + keys
		}
		if more := len(lines) - room - t.first; more > 0 {
			keys = plain.Count(more, "line") + " more   " + keys
		}
		t.write(rows-1, cols, styled{keys + strings.Repeat(" ", max(cols-len(keys), 0)), barStyle})
	}
	t.screen.Show()
}

// write writes a line.
func (t *topScreen) write(y, cols int, l styled) {
	x := 0
	for _, r := range l.text {
		if x >= cols {
			break
		}
		t.screen.SetContent(x, y, r, nil, l.style)
		x++
	}
}

// lines are those of the report: first what writeTop prints, with the curve of a run
// below the runs' table.
func (t *topScreen) lines(cols, rows int) (out []styled) {
	var b strings.Builder
	_ = writeTop(&b, t.report, cols) // a Builder returns no error
	block := 0
	heading := false
	curve := t.curve(cols, rows)
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		style := plainStyle
		switch {
		case line == "":
			if block++; block == 2 {
				out = append(out, curve...)
			}
			heading = true
		case block == 0:
			style = headingStyle
		case heading:
			style, heading = dimStyle, false
		}
		out = append(out, styled{line, style})
	}
	return out
}

// curve are the lines of the chosen run's curve; none where no run has one.
func (t *topScreen) curve(cols, rows int) (out []styled) {
	all := inOrder(t.report.Trainings)
	if len(all) == 0 {
		return nil
	}
	t.chosen %= len(all)
	run := all[t.chosen]
	var loss, lr []train.Point
	for _, p := range run.Curve {
		loss = append(loss, train.Point{Step: int(p.Step), Loss: p.Loss})
		lr = append(lr, train.Point{Step: int(p.Step), Loss: p.LR})
	}
	high := max(min(rows/4, topMostCurve), topLeastCurve)
	const axis = 10 // columns of its numbers
	name := fmt.Sprintf("loss of %s, process %d, by step", cell(run.Name), run.PID)
	if cols < topWide {
		return drawn(name, plotted(loss, cols-axis, high))
	}
	left, right := drawn(name, plotted(loss, cols*2/3-axis, high)), drawn("learning rate", plotted(lr, cols/3-axis-2, high))
	for i := range left {
		text := left[i].text
		if i < len(right) {
			text = fmt.Sprintf("%-*s%s", cols*2/3+2, text, right[i].text)
		}
		out = append(out, styled{text, left[i].style})
	}
	return out
}

// drawn are the lines of a curve below its name; none for no curve.
func drawn(name, curve string) (out []styled) {
	if curve == "" {
		return nil
	}
	out = append(out, styled{"", plainStyle}, styled{name, dimStyle})
	for line := range strings.Lines(curve) {
		out = append(out, styled{strings.TrimSuffix(line, "\n"), curveStyle})
	}
	return out
}
