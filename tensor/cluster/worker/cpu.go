package worker

import (
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// CPU makes a Device of one whose values lie in host memory, which owns d.
func CPU(d device.Device) Device { return cpuDevice{d} }

type cpuDevice struct{ device.Device }

func (d cpuDevice) Name() string { return d.Info().Name }

func (d cpuDevice) Compile(hash tensor.Hash, encoded []byte) (Program, error) {
	return d.Device.Compile(hash, encoded)
}

func (d cpuDevice) PlanStats() PlanStats {
	s := d.Stats()
	return PlanStats{Hits: s.Hits, Misses: s.Misses, Evicted: s.Evicted, Plans: s.Plans, Bytes: s.PlanBytes}
}

func (d cpuDevice) Open() Space { return cpuSpace{d.Device.Open()} }

type cpuSpace struct{ device.Space }

func (s cpuSpace) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) error {
	return s.Space.Import(id, d, shape, b, false)
}

func (s cpuSpace) Run(p Program, base uint64, inputs []uint64, scalars []float64) error {
	return s.Space.Run(p, base, inputs, scalars)
}

func (s cpuSpace) Lookup(id uint64) (Value, bool) {
	blocks, err := s.Host(id)
	if err != nil {
		return Value{}, false
	}
	if blocks[0] != nil {
		blocks[0].Release() // the value has a reference too
	}
	v, _ := s.Space.Lookup(id)
	return Value{v.DType, v.Shape, blocks[0]}, true
}
