package apply

import "github.com/ringside-go/ringside/gather/codec"

// Weights is a model, or momentum, by rows: row r of a parameter is its r-th chunk,
// TotalK elements. i is the parameter's place in the manifest. Calls for different rows
// may be made concurrently by different ranks.
type Weights interface {
	// Read copies n rows of p, parameter i, from row from on to dst.
	Read(p *codec.Param, i, from, n int, dst []float32) error
	// Write replaces these rows by those in src.
	Write(p *codec.Param, i, from, n int, src []float32) error
}

// Mem is a model in memory: elements by parameter, row-major.
type Mem [][]float32

// NewMem returns zeros.
func NewMem(m *codec.Manifest) Mem {
	w := make(Mem, len(m.Params))
	for i := range w {
		w[i] = make([]float32, m.Params[i].Elements())
	}
	return w
}

// Read implements Weights.
func (w Mem) Read(p *codec.Param, i, from, n int, dst []float32) error {
	for r := range n {
		p.Gather(dst[r*p.TotalK:(r+1)*p.TotalK], w[i], from+r)
	}
	return nil
}

// Write implements Weights.
func (w Mem) Write(p *codec.Param, i, from, n int, src []float32) error {
	for r := range n {
		p.Scatter(w[i], src[r*p.TotalK:(r+1)*p.TotalK], from+r)
	}
	return nil
}
