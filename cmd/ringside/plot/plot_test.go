package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder makes a folder with a log.
func folder(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, LogName), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := folder(t, `{"step":1,"loss":3,"lr":0.1}`, `{"step":2,"loss":2.5}`, `{"step":3,"loss":9}`, `{"step":2,"loss":2,"items_per_second":7}`, `{"step":2,"held_out_loss":1.5}`)
	want := []Point{{1, 3, 0.1, 0}, {2, 2, 0, 7}}
	for _, path := range []string{dir, filepath.Join(dir, LogName)} {
		if r, err := Read(path); err != nil || !slices.Equal(r.Points, want) || r.Name != path {
			t.Errorf("%s: %+v, %v, expected %v", path, r, err, want)
		}
	}
	for _, line := range []string{"", "[1]", "{}", `{"step":-1,"loss":1}`, `{"step":1,"loss":"x"}`, strings.Repeat(" ", maxLine+1)} {
		if r, err := Read(folder(t, line)); !errors.Is(err, ErrRun) {
			t.Errorf("%.20q: %+v, %v, expected %v", line, r, err, ErrRun)
		}
	}
	if _, err := Read(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func falling(name string, n int, from float64) *Run {
	r := &Run{Name: name}
	for i := range n {
		r.Points = append(r.Points, Point{Step: 10 * (i + 1), Loss: from / float64(i+1), LR: 1e-3, Rate: 100})
	}
	return r
}

// TestPictures checks that both pictures have all curves, in colours of their own.
func TestPictures(t *testing.T) {
	for _, n := range []int{1, 5000} {
		runs := []*Run{falling("a", n, 5), falling("<b>", n, 4)}
		for _, o := range []*Options{nil, {Values: []Value{LR, Rate}, Log: true}} {
			panels := 1
			if o != nil {
				panels = len(o.Values)
			}
			var svg, picture bytes.Buffer
			if err := errors.Join(SVG(&svg, runs, o), PNG(&picture, runs, o)); err != nil {
				t.Fatal(err)
			}
			var parsed struct {
				Lines []struct {
					Stroke string `xml:"stroke,attr"`
					Points string `xml:"points,attr"`
				} `xml:"polyline"`
				Texts []string `xml:"text"`
			}
			if err := xml.Unmarshal(svg.Bytes(), &parsed); err != nil {
				t.Fatal(err)
			}
			m, err := png.Decode(&picture)
			if err != nil {
				t.Fatal(err)
			}
			pix := m.(*image.RGBA).Pix
			for i, r := range runs {
				c := colors[i]
				curves := 0
				for _, l := range parsed.Lines {
					if l.Stroke == fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) {
						curves++
						if strings.Contains(l.Points, "NaN") || strings.Contains(l.Points, "Inf") {
							t.Errorf("%d points: %.200s", n, l.Points)
						}
					}
				}
				if curves != 1+panels {
					t.Errorf("%d points: %d lines of %s, expected %d", n, curves, r.Name, 1+panels)
				}
				// The line in the legend has 24 pixels.
				if !bytes.Contains(pix, bytes.Repeat([]byte{c.R, c.G, c.B, c.A}, 24)) {
					t.Errorf("%d points: no line of %s", n, r.Name)
				}
				if !slices.ContainsFunc(parsed.Texts, func(s string) bool { return strings.HasPrefix(s, r.Name+": loss ") }) {
					t.Errorf("no legend of %s in %q", r.Name, parsed.Texts)
				}
			}
		}
	}
	if err := SVG(new(bytes.Buffer), []*Run{{Name: "r", Points: []Point{{1, 0, 0, 0}}}}, &Options{Log: true}); !errors.Is(err, ErrScale) {
		t.Errorf("a logarithm of 0: %v", err)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		least, most float64
		n           int
		want        []float64
	}{
		{0, 10, 6, []float64{0, 2, 4, 6, 8, 10}},
		{1, 300, 6, []float64{50, 100, 150, 200, 250, 300}},
		{2, 2, 6, []float64{2}},
	} {
		if got := ticks(&scale{least: c.least, most: c.most}, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%g to %g: %v, expected %v", c.least, c.most, got, c.want)
		}
	}
	x := math.Nextafter(0.3, 1)
	if got := ticks(&scale{least: 0.3, most: math.Nextafter(x, 1)}, 6); len(got) > 7 {
		t.Errorf("%d ticks of values that differ in their last bits", len(got))
	}
}
