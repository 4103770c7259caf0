package cpu

import "github.com/ringside-go/ringside/tensor"

// NewEager is New, but threads share every step that can be, however small.
func NewEager(o *Options) (*Device, error) {
	d, err := New(o)
	if err == nil {
		d.eager = true
	}
	return d, err
}

// Collide makes d find the plan of one program under the hash of another, as if both had that.
func (d *Device) Collide(of, under tensor.Hash) { d.plans.byHash[under] = d.plans.byHash[of] }
