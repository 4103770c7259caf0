package trace

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
)

// kind is what a lane's time goes to. A later one lies over those before it.
type kind struct {
	name, cat string
	color     color.RGBA
}

var kinds = [...]kind{
	{"submit", catClient, color.RGBA{0x8e, 0x7c, 0xc3, 0xff}},
	{"messages", catMessage, color.RGBA{0xf6, 0xb2, 0x6b, 0xff}},
	{"compile", catCompile, color.RGBA{0x6a, 0xa8, 0x4f, 0xff}},
	{"programs", catProgram, color.RGBA{0x3d, 0x85, 0xc6, 0xff}},
	{"collectives", catCollective, color.RGBA{0xcc, 0x33, 0x33, 0xff}},
	{"calls", catCall, color.RGBA{0xc2, 0x7b, 0xa0, 0xff}},
	{"waits", catWait, color.RGBA{0xb7, 0xb7, 0xb7, 0xff}},
}

// Sizes of a drawing in pixels.
const (
	drawn  = 1200 // columns of time
	margin = 10
	tall   = 48 // a lane
	apart  = 26 // between two lanes, for the name
	footer = 40
)

// MaxDrawn is the most lanes that SVG and PNG draw: the first of Summarize.
const MaxDrawn = 64

// strip is a lane as drawn: for each column and kind the share of the time, 0 to 1.
type strip struct {
	name  string
	share [drawn][len(kinds)]float64
}

// picture is a timeline: a strip for each process, column by column.
type picture struct {
	first, last float64 // microseconds
	strips      []*strip
	left        int // lanes that have no strip
}

// omitted says how many processes are not drawn; empty for none.
func (p *picture) omitted() string {
	if p.left == 0 {
		return ""
	}
	return fmt.Sprintf("%d more processes are not drawn", p.left)
}

func draw(f *File) *picture {
	p := &picture{}
	p.first, p.last = bounds(f)
	lanes := map[int]*strip{}
	all := Summarize(f).Lanes
	p.left = max(len(all)-MaxDrawn, 0)
	for _, l := range all[:len(all)-p.left] {
		lanes[l.process] = &strip{name: clip(l.Name)}
		p.strips = append(p.strips, lanes[l.process])
	}
	column := max(p.last-p.first, 1e-3) / drawn
	for i := range f.Events {
		e := &f.Events[i]
		k, l := kindOf(e), lanes[e.PID]
		if k < 0 || l == nil {
			continue
		}
		from, to := (e.TS-p.first)/column, (e.end()-p.first)/column
		for c := max(int(from), 0); c < drawn && float64(c) < to; c++ {
			l.share[c][k] += max(min(to, float64(c+1))-max(from, float64(c)), 0)
		}
	}
	for _, l := range p.strips {
		for c := range l.share {
			s := &l.share[c]
			// Programs and collectives are parts of messages, waits of submits.
			s[0] = max(s[0]-s[len(s)-1], 0)
			s[1] = max(s[1]-s[2]-s[3]-s[4], 0)
			for k := range s {
				s[k] = min(s[k], 1)
			}
		}
	}
	return p
}

// kindOf returns the number of an event's kind; below 0 for events that are not drawn.
func kindOf(e *Event) int {
	if e.Phase != "X" || e.Cat == catClient && e.Name != "submit" {
		return -1
	}
	for i, k := range kinds {
		if k.cat == e.Cat {
			return i
		}
	}
	return -1
}

// size returns the width and the height of the drawing.
func (p *picture) size() (w, h int) {
	return drawn + 2*margin, len(p.strips)*(tall+apart) + footer
}

// top returns the upper edge of a strip.
func (p *picture) top(i int) int { return i*(tall+apart) + apart }

// bars calls f for each kind's part of a column of a strip, from its bottom upwards.
func (l *strip) bars(c int, f func(kind int, from, to float64)) {
	at := 0.0
	for k, share := range l.share[c] {
		if to := min(at+share, 1); share > 0 && to > at {
			f(k, at, to)
			at = to
		}
	}
}

// SVG draws the timeline: a lane a process. A column of pixels is a piece of the time,
// and its colours are what the piece went to.
func SVG(out io.Writer, f *File) error {
	p, w := draw(f), bufio.NewWriter(out)
	width, height := p.size()
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, l := range p.strips {
		top := p.top(i)
		fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", margin, top-6, escape(l.name))
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" fill="#f3f3f3"/>`+"\n", margin, top, drawn, tall)
		var paths [len(kinds)]strings.Builder
		for c := range l.share {
			l.bars(c, func(k int, from, to float64) {
				fmt.Fprintf(&paths[k], "M%d %.1fh1V%.1fh-1z", margin+c, float64(top)+tall*(1-from), float64(top)+tall*(1-to))
			})
		}
		for k := range paths {
			if paths[k].Len() > 0 {
				fmt.Fprintf(w, `<path fill="%s" d="%s"/>`+"\n", hex(kinds[k].color), paths[k].String())
			}
		}
	}
	x, y := margin, p.top(len(p.strips))-apart+24
	for _, k := range kinds {
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y-11, hex(k.color), x+17, y, k.name)
		x += 120
	}
	if left := p.omitted(); left != "" {
		fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", margin, y+14, left)
	}
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end">%s in all</text>`+"\n</svg>\n", width-margin, y, seconds((p.last-p.first)/1e6))
	return w.Flush()
}

// hex is a colour as SVG has it.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no error
	return b.String()
}

// PNG draws the timeline that SVG draws.
func PNG(out io.Writer, f *File) error {
	p := draw(f)
	width, height := p.size()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	fill(m, m.Rect, color.RGBA{0xff, 0xff, 0xff, 0xff})
	for i, l := range p.strips {
		top := p.top(i)
		write(m, margin, top-14, l.name)
		fill(m, image.Rect(margin, top, margin+drawn, top+tall), color.RGBA{0xf3, 0xf3, 0xf3, 0xff})
		for c := range l.share {
			l.bars(c, func(k int, from, to float64) {
				fill(m, image.Rect(margin+c, top+tall-int(math.Round(tall*to)), margin+c+1, top+tall-int(math.Round(tall*from))), kinds[k].color)
			})
		}
	}
	x, y := margin, p.top(len(p.strips))-apart+14
	for _, k := range kinds {
		fill(m, image.Rect(x, y, x+12, y+12), k.color)
		write(m, x+17, y+1, k.name)
		x += 150
	}
	write(m, x, y+1, seconds((p.last-p.first)/1e6)+" in all")
	write(m, margin, y+15, p.omitted())
	return png.Encode(out, m)
}

func fill(m *image.RGBA, r image.Rectangle, c color.RGBA) {
	r = r.Intersect(m.Rect)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			m.SetRGBA(x, y, c)
		}
	}
}

// glyphs is a font of 3 by 5 dots: a row of three bits after the other, the upper left
// dot in the highest of 15 bits.
var glyphs = map[rune]uint16{
	'0': 0b111_101_101_101_111, '1': 0b010_110_010_010_111, '2': 0b111_001_111_100_111, '3': 0b111_001_111_001_111,
	'4': 0b101_101_111_001_001, '5': 0b111_100_111_001_111, '6': 0b111_100_111_101_111, '7': 0b111_001_001_010_010,
	'8': 0b111_101_111_101_111, '9': 0b111_101_111_001_111, 'A': 0b010_101_111_101_101, 'B': 0b110_101_110_101_110,
	'C': 0b011_100_100_100_011, 'D': 0b110_101_101_101_110, 'E': 0b111_100_110_100_111, 'F': 0b111_100_110_100_100,
	'G': 0b011_100_101_101_011, 'H': 0b101_101_111_101_101, 'I': 0b111_010_010_010_111, 'J': 0b001_001_001_101_010,
	'K': 0b101_101_110_101_101, 'L': 0b100_100_100_100_111, 'M': 0b101_111_111_101_101, 'N': 0b110_101_101_101_101,
	'O': 0b010_101_101_101_010, 'P': 0b110_101_110_100_100, 'Q': 0b010_101_101_110_011, 'R': 0b110_101_110_101_101,
	'S': 0b011_100_010_001_110, 'T': 0b111_010_010_010_010, 'U': 0b101_101_101_101_111, 'V': 0b101_101_101_101_010,
	'W': 0b101_101_111_111_101, 'X': 0b101_101_010_101_101, 'Y': 0b101_101_010_010_010, 'Z': 0b111_001_010_100_111,
	'(': 0b010_100_100_100_010, ')': 0b010_001_001_001_010, '.': 0b000_000_000_000_010, '-': 0b000_000_111_000_000,
	'_': 0b000_000_000_000_111, ' ': 0,
}

// write writes text in capitals, each dot two pixels wide and high.
func write(m *image.RGBA, x, y int, text string) {
	for _, r := range strings.ToUpper(text) {
		g, ok := glyphs[r]
		if !ok {
			g = glyphs['-']
		}
		for i := range 15 {
			if g>>(14-i)&1 == 1 {
				at := image.Pt(x+2*(i%3), y+2*(i/3))
				fill(m, image.Rectangle{at, at.Add(image.Pt(2, 2))}, color.RGBA{0x33, 0x33, 0x33, 0xff})
			}
		}
		x += 8
	}
}
