package plot

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
)

// SVG draws runs as SVG.
func SVG(out io.Writer, runs []*Run, o *Options) error {
	c, err := newChart(runs, o)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13" fill="#333">`+"\n", width, c.height())
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, c.height())
	c.draw(svg{w})
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// svg writes elements. Errors are the Flush's.
type svg struct{ w *bufio.Writer }

func (s svg) line(points []pt, c color.RGBA, thick float64) {
	fmt.Fprintf(s.w, `<polyline fill="none" stroke="#%02x%02x%02x" stroke-width="%g" stroke-linejoin="round" points="`, c.R, c.G, c.B, thick)
	for _, p := range points {
		fmt.Fprintf(s.w, "%.1f,%.1f ", p.x, p.y)
	}
	fmt.Fprintln(s.w, `"/>`)
}

func (s svg) text(at pt, a anchor, text string) {
	fmt.Fprintf(s.w, `<text x="%.1f" y="%.1f" text-anchor="%s">`, at.x, at.y, [...]string{left: "start", middle: "middle", right: "end"}[a])
	_ = xml.EscapeText(s.w, []byte(text))
	fmt.Fprintln(s.w, "</text>")
}
