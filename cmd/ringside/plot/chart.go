package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"
)

// Value is one of the values of a point.
type Value int

// Values that can be drawn.
const (
	Loss Value = iota
	LR
	Rate
)

// Names are the values as a command line has them.
var Names = []string{Loss: "loss", LR: "lr", Rate: "rate"}

var titles = []string{Loss: "loss", LR: "learning rate", Rate: "items a second"}

func (v Value) of(p Point) float64 { return []float64{Loss: p.Loss, LR: p.LR, Rate: p.Rate}[v] }

// ErrScale is returned for a logarithmic scale of values that are not above 0.
var ErrScale = errors.New("plot: a logarithmic scale is for values above 0")

// Options of a chart. The zero value draws losses.
type Options struct {
	Values []Value // a panel each; none: Loss
	Log    bool    // logarithmic scale of the values
}

// Sizes in pixels.
const (
	width      = 1200
	panel      = 420 // height of a panel, its title and steps included
	marginL    = 90
	marginR    = 30
	above      = 36 // of a panel's box
	below      = 48
	legendLine = 20
	gapTicks   = 90 // between two numbers of an axis at least
)

// colors tell runs apart, also for most colour-blind readers (Okabe and Ito).
var colors = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x33, 0x33, 0x33, 0xff},
}

var (
	ink  = color.RGBA{0x33, 0x33, 0x33, 0xff}
	grid = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
)

// anchor is the point of a text that lies where it is drawn.
type anchor int

const (
	left anchor = iota
	middle
	right
)

type pt struct{ x, y float64 }

// canvas is what a chart is drawn on. y grows downwards.
type canvas interface {
	line(points []pt, c color.RGBA, thick float64)
	text(at pt, a anchor, s string)
}

// chart is runs and the scales of their panels.
type chart struct {
	runs   []*Run
	o      Options
	steps  scale
	values []scale
}

// scale maps values to pixels.
type scale struct {
	least, most float64 // logarithms with log
	log         bool
	from, to    float64 // pixels of least and most
}

func (s *scale) at(x float64) float64 {
	if s.log {
		x = math.Log10(x)
	}
	if s.most == s.least {
		return (s.from + s.to) / 2
	}
	return s.from + (x-s.least)/(s.most-s.least)*(s.to-s.from)
}

// newChart finds the scales.
func newChart(runs []*Run, o *Options) (*chart, error) {
	c := &chart{runs: runs}
	if o != nil {
		c.o = *o
	}
	if len(c.o.Values) == 0 {
		c.o.Values = []Value{Loss}
	}
	c.steps = scale{least: math.Inf(1), most: math.Inf(-1), from: marginL, to: width - marginR}
	for i, v := range c.o.Values {
		s := scale{least: math.Inf(1), most: math.Inf(-1), log: c.o.Log, from: float64((i+1)*panel - below), to: float64(i*panel + above)}
		for _, r := range runs {
			for _, p := range r.Points {
				x := v.of(p)
				if c.o.Log && x <= 0 {
					return nil, fmt.Errorf("%w: %s of %s at step %d is %g", ErrScale, titles[v], r.Name, p.Step, x)
				}
				if c.o.Log {
					x = math.Log10(x)
				}
				s.least, s.most = min(s.least, x), max(s.most, x)
				c.steps.least, c.steps.most = min(c.steps.least, float64(p.Step)), max(c.steps.most, float64(p.Step))
			}
		}
		// A little room, so that no curve lies on the frame.
		room := (s.most - s.least) / 20
		s.least, s.most = s.least-room, s.most+room
		c.values = append(c.values, s)
	}
	return c, nil
}

func (c *chart) height() int { return len(c.values)*panel + (len(c.runs)+1)*legendLine }

// draw draws the panels and the legend.
func (c *chart) draw(on canvas) {
	for i := range c.values {
		s := &c.values[i]
		on.text(pt{marginL, s.to - 14}, left, titles[c.o.Values[i]])
		for _, x := range ticks(s, 6) {
			y := s.at(x)
			on.line([]pt{{marginL, y}, {width - marginR, y}}, grid, 1)
			on.text(pt{marginL - 8, y + 4}, right, fmt.Sprintf("%.4g", x))
		}
		for _, x := range ticks(&c.steps, (width-marginL-marginR)/gapTicks) {
			on.line([]pt{{c.steps.at(x), s.from}, {c.steps.at(x), s.to}}, grid, 1)
			on.text(pt{c.steps.at(x), s.from + 18}, middle, fmt.Sprintf("%.6g", x))
		}
		on.line([]pt{{marginL, s.to}, {marginL, s.from}, {width - marginR, s.from}}, ink, 1)
		on.text(pt{(marginL + width - marginR) / 2, s.from + 36}, middle, "step")
		for n, r := range c.runs {
			on.line(c.curve(r, c.o.Values[i], s), colors[n%len(colors)], 2)
		}
	}
	y := float64(len(c.values)*panel + legendLine/2)
	for n, r := range c.runs {
		last := r.Points[len(r.Points)-1]
		on.line([]pt{{marginL, y}, {marginL + 24, y}}, colors[n%len(colors)], 3)
		on.text(pt{marginL + 32, y + 4}, left, fmt.Sprintf("%s: loss %.4f at step %d", r.Name, last.Loss, last.Step))
		y += legendLine
	}
}

// curve returns a run's values as pixels: of each column of pixels the mean.
func (c *chart) curve(r *Run, v Value, s *scale) (out []pt) {
	var sum, n float64
	at := math.Inf(-1)
	flush := func() {
		if n > 0 {
			out = append(out, pt{at, s.at(sum / n)})
		}
		sum, n = 0, 0
	}
	for _, p := range r.Points {
		if x := math.Round(c.steps.at(float64(p.Step))); x != at {
			flush()
			at = x
		}
		sum, n = sum+v.of(p), n+1
	}
	flush()
	return out
}

// ticks returns at most n round values of a scale.
func ticks(s *scale, n int) (out []float64) {
	span := s.most - s.least
	if !(span > 0) {
		if s.log {
			return []float64{math.Pow(10, s.least)}
		}
		return []float64{s.least}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if span/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	first := math.Ceil(s.least / step)
	for i := range n + 1 { // no more, where values differ in their last bits alone
		x := (first+float64(i))*step + 0 // not -0
		if !(x <= s.most) {
			break
		}
		if s.log {
			x = math.Pow(10, x)
		}
		out = append(out, x)
	}
	return out
}
