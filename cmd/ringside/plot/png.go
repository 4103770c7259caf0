package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// PNG draws what SVG draws.
func PNG(out io.Writer, runs []*Run, o *Options) error {
	c, err := newChart(runs, o)
	if err != nil {
		return err
	}
	m := image.NewRGBA(image.Rect(0, 0, width, c.height()))
	draw.Draw(m, m.Rect, image.White, image.Point{}, draw.Src)
	c.draw(&pixels{m, new(vector.Rasterizer)})
	return png.Encode(out, m)
}

// pixels draws on an image.
type pixels struct {
	m *image.RGBA
	r *vector.Rasterizer
}

// line draws each piece of a line as a rectangle, longer by half of its thickness at both
// ends, so that there are no gaps in corners.
func (p *pixels) line(points []pt, c color.RGBA, thick float64) {
	half := thick / 2
	box := around(points, thick)
	p.r.Reset(box.Dx(), box.Dy())
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		long := math.Hypot(b.x-a.x, b.y-a.y)
		if long == 0 {
			continue
		}
		dx, dy := (b.x-a.x)/long*half, (b.y-a.y)/long*half
		corner := func(to func(x, y float32), at pt, along, across float64) {
			to(float32(at.x+along*dx-across*dy-float64(box.Min.X)), float32(at.y+along*dy+across*dx-float64(box.Min.Y)))
		}
		corner(p.r.MoveTo, a, -1, 1)
		corner(p.r.LineTo, b, 1, 1)
		corner(p.r.LineTo, b, 1, -1)
		corner(p.r.LineTo, a, -1, -1)
		p.r.ClosePath()
	}
	p.r.Draw(p.m, box, image.NewUniform(c), image.Point{})
}

// around returns the pixels that a line may touch.
func around(points []pt, thick float64) image.Rectangle {
	a, b := pt{math.Inf(1), math.Inf(1)}, pt{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		a, b = pt{min(a.x, p.x), min(a.y, p.y)}, pt{max(b.x, p.x), max(b.y, p.y)}
	}
	return image.Rect(int(math.Floor(a.x-thick)), int(math.Floor(a.y-thick)), int(math.Ceil(b.x+thick)), int(math.Ceil(b.y+thick)))
}

func (p *pixels) text(at pt, a anchor, text string) {
	d := font.Drawer{Dst: p.m, Src: image.NewUniform(ink), Face: basicfont.Face7x13}
	x := at.x
	switch a {
	case middle:
		x -= float64(d.MeasureString(text).Round()) / 2
	case right:
		x -= float64(d.MeasureString(text).Round())
	}
	d.Dot = fixed.P(int(math.Round(x)), int(math.Round(at.y)))
	d.DrawString(text)
}
