package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// flights returns the files of a folder and the content of those of a rank.
func flights(t *testing.T, dir string, rank int) (names []string, text string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
		if strings.Contains(e.Name(), fmt.Sprintf("-rank%d-", rank)) {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
	}
	return names, text
}

// TestFlight: when a call fails on all ranks, each writes down its last calls once, and
// its error names the file.
func TestFlight(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by it")
	onEach(t, &Options{Flight: dir}, func(t *testing.T, groups []*Group) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		ctx := hangGuard(t)
		x := make([]float32, flightBytes/4)
		errs := each(groups, func(g *Group) error {
			for range flightCalls {
				if err := g.Barrier(ctx); err != nil {
					return err
				}
			}
			y := slices.Clone(x)
			if err := AllReduce(ctx, g, y, y, Sum); err != nil {
				return err
			}
			if g.Rank() == 2 {
				return Broadcast(ctx, g, y[:1], 0)
			}
			return AllReduce(ctx, g, y[:7], y[:7], Max)
		})
		for r, err := range errs {
			e := asError(t, r, err)
			names, text := flights(t, dir, r)
			if len(names) != len(groups) || e.Flight == "" || !strings.HasSuffix(err.Error(), " are in "+e.Flight) {
				t.Errorf("rank %d: %v, and %d files", r, err, len(names))
			}
			if b, err := os.ReadFile(e.Flight); err != nil || string(b) != text {
				t.Errorf("rank %d: %q, %v", r, b, err)
			}
			lines := strings.Split(strings.TrimSpace(text), "\n")
			if len(lines) != 3+flightCalls {
				t.Fatalf("rank %d: %d lines, expected 3 and %d calls:\n%s", r, len(lines), flightCalls, text)
			}
			last, large, small := lines[len(lines)-1], lines[len(lines)-2], lines[len(lines)-3]
			want := map[bool]string{true: "broadcast", false: "all-reduce"}[r == 2]
			if !strings.Contains(last, "NOT OVER") || !strings.Contains(last, want) {
				t.Errorf("rank %d: the last call is %q, expected a %s that is not over", r, last, want)
			}
			if !strings.Contains(large, " took ") || !strings.Contains(large, fmt.Sprintf("sum f32 x %d", len(x))) {
				t.Errorf("rank %d: the call before it is %q, expected how long the sum took", r, large)
			}
			if !strings.Contains(small, " over ") || !strings.Contains(small, "barrier") {
				t.Errorf("rank %d: the call before that is %q, expected a barrier", r, small)
			}
			if !strings.Contains(lines[2], fmt.Sprintf("%d calls in all, the last %d", flightCalls+2, flightCalls)) {
				t.Errorf("rank %d: %q", r, lines[2])
			}
		}
		// a later error names the same file
		e := asError(t, 0, groups[0].Barrier(ctx))
		if names, _ := flights(t, dir, 0); e.Flight == "" || len(names) != len(groups) {
			t.Errorf("afterwards: %v, %d files", e, len(names))
		}
	})
}

// TestFlightOfLanes: when sends and receives with tags fail on all ranks, each writes
// them down once, those that are over and those that are not. Their errors name the file.
func TestFlightOfLanes(t *testing.T) {
	dir := t.TempDir()
	onEach(t, &Options{Flight: dir}, func(t *testing.T, groups []*Group) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		ctx := hangGuard(t)
		var begun sync.WaitGroup
		begun.Add(len(groups))
		errs := each(groups, func(g *Group) error {
			begin := sync.OnceFunc(begun.Done)
			defer begin()
			x, before, after := make([]int32, 3), (g.Rank()+3)%4, (g.Rank()+1)%4
			for range flightCalls {
				w := SendTagAsync(ctx, g, x, after, 7)
				if _, err := RecvTag(ctx, g, x, before, 7); err != nil {
					return err
				}
				if err := w.Wait(ctx); err != nil {
					return err
				}
			}
			long := RecvTagAsync(ctx, g, make([]int32, 9), AnyRank, 9)
			// Of rank 1 with another length than what it is sent.
			short := RecvTagAsync(ctx, g, make([]int32, 4), 2, 8)
			begin()
			if g.Rank() == 2 {
				begun.Wait() // no rank fails before all have begun both
				if err := SendTag(ctx, g, x, 1, 8); err != nil {
					return err
				}
			}
			err := short.Wait(ctx)
			if other := long.Wait(ctx); errors.As(err, new(*Error)) && flightOf(other) != flightOf(err) {
				t.Errorf("rank %d: %v, and %v", g.Rank(), err, other)
			}
			return err
		})
		for r, err := range errs {
			names, text := flights(t, dir, r)
			if len(names) != len(groups) || flightOf(err) == "" || !strings.HasSuffix(flightOf(err), "-tags.txt") {
				t.Errorf("rank %d: %v, and the files %q", r, err, names)
			}
			if b, err := os.ReadFile(flightOf(err)); err != nil || string(b) != text {
				t.Errorf("rank %d: %q, %v", r, b, err)
			}
			lines := strings.Split(strings.TrimSpace(text), "\n")
			if len(lines) != 3+flightCalls+2 {
				t.Fatalf("rank %d: %d lines, expected 3, %d that are over and 2 that are not:\n%s", r, len(lines), flightCalls, text)
			}
			for i, want := range []string{"recv #", "from any rank, tag 9", "recv #", "from 2, tag 8"} {
				if l := lines[3+flightCalls+i/2]; !strings.Contains(l, "NOT OVER") || !strings.Contains(l, want) {
					t.Errorf("rank %d: %q, expected %s", r, l, want)
				}
			}
			if l := lines[2+flightCalls]; !strings.Contains(l, " took ") || !strings.Contains(l, "i32 x 3") || !strings.HasSuffix(l, ", tag 7") && r != 2 {
				t.Errorf("rank %d: the last that is over is %q", r, l)
			}
			if !strings.Contains(lines[2], fmt.Sprintf("the last %d of them", flightCalls)) || !strings.Contains(lines[1], err.(*Error).Err.Error()) {
				t.Errorf("rank %d: %q, %q; %v", r, lines[1], lines[2], err)
			}
		}
	})
}

// flightOf returns the file that an error names.
func flightOf(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Flight
	}
	return ""
}

// TestFlightOfACancelledCall: a context is no failure of another rank, and nothing is
// written.
func TestFlightOfACancelledCall(t *testing.T) {
	dir := t.TempDir()
	groups, err := Local(2, &Options{Flight: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		defer g.Close()
	}
	ctx, cancel := context.WithCancel(hangGuard(t))
	cancel()
	for r, err := range each(groups, func(g *Group) error {
		if g.Rank() == 0 {
			return g.Barrier(ctx)
		}
		return g.Barrier(hangGuard(t))
	}) {
		if e := asError(t, r, err); e.Flight != "" {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if names, _ := flights(t, dir, 0); len(names) > 0 {
		t.Errorf("%q were written", names)
	}
}

// TestFlightFiles: the oldest files of a folder go, and no others.
func TestFlightFiles(t *testing.T) {
	dir := t.TempDir()
	const more = 5
	for i := range flightFiles + more {
		name := fmt.Sprintf("%s%d-rank0-of-1-pid1%s", flightPrefix, time.Now().UnixNano()+int64(i), flightSuffix)
		if i == 1 {
			name += flightPart // its process was killed
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := flights(t, dir, 0)
	if err := pruneFlights(dir, flightRank, flightFiles); err != nil {
		t.Fatal(err)
	}
	after, _ := flights(t, dir, 0)
	if want := append(before[:1:1], before[1+more:]...); !slices.Equal(after, want) {
		t.Errorf("%d files of %d are left, expected all but the oldest %d", len(after), len(before), more)
	}
}

// TestFlightAfterTheClockWasSetBack: files of a time that is to come go first, and not
// those of a failure now, as many as there are.
func TestFlightAfterTheClockWasSetBack(t *testing.T) {
	dir := t.TempDir()
	name := func(at time.Time, i int) string {
		return filepath.Join(dir, fmt.Sprintf("%s%d-client-pid%d%s", flightPrefix, at.UnixNano(), i, flightSuffix))
	}
	now := time.Now()
	for i := range flightFiles {
		if err := os.WriteFile(name(now.Add(time.Hour), i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for i := range 3 {
		path, err := WriteFlight(dir, "client", fmt.Errorf("failure %d", i), "an event\n")
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for i, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("failure %d: %v", i, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != flightFiles {
		t.Errorf("%d files are left, %v; expected %d", len(all), err, flightFiles)
	}
}

// TestWriteFlight: files of processes that are no ranks are bounded by themselves, and
// remove none of another kind.
func TestWriteFlight(t *testing.T) {
	dir := t.TempDir()
	for r := range 2 * flightFiles { // of one failure of a large group
		name := fmt.Sprintf("%s%d-rank%d-of-%d-pid1%s", flightPrefix, int(1e18)+r, r, 2*flightFiles, flightSuffix)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range flightFiles + 3 {
		for _, who := range []string{"client", "dispatcher"} {
			path, err := WriteFlight(dir, who, fmt.Errorf("failure %d", i), "an event\n")
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if want := fmt.Sprintf("the last events of this %s: process %d\nfailed at ", who, os.Getpid()); err != nil ||
				!strings.HasPrefix(string(text), want) || !strings.HasSuffix(string(text), fmt.Sprintf(": failure %d\nan event\n", i)) {
				t.Fatalf("%s has %q, %v", path, text, err)
			}
		}
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, e := range all {
		left[strings.TrimRight(strings.Split(e.Name(), "-")[2], "0123456789")]++
	}
	if want := map[string]int{"rank": 2 * flightFiles, "client": flightFiles, "dispatcher": flightFiles}; !maps.Equal(left, want) {
		t.Errorf("%v files are left, expected %v", left, want)
	}
}

// TestFlightFolder: a folder that can't be made changes no error, and "off" is none.
func TestFlightFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	groups, err := Local(2, &Options{Flight: filepath.Join(file, "folder")})
	if err != nil {
		t.Fatal(err)
	}
	defer groups[1].Close()
	groups[0].Close()
	if e := asError(t, 1, groups[1].Barrier(hangGuard(t))); e.Flight != "" || !errors.Is(e, ErrPeerLost) {
		t.Errorf("%v", e)
	}
	t.Setenv("XDG_CACHE_HOME", "/cache")
	for said, want := range map[string]string{"off": "", "/x": "/x", "": "/cache/ringside/flight"} {
		if got := FlightFolder(said); got != want {
			t.Errorf("%q is the folder %q, expected %q", said, got, want)
		}
	}
}
