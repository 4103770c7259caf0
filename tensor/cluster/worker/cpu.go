package worker

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// CPU makes a Device of the cores of this machine, which owns d.
func CPU(d *cpu.Device) Device { return cpuDevice{d} }

type cpuDevice struct{ *cpu.Device }

type cpuProgram struct{ *cpu.Compiled }

func (p cpuProgram) Parsed() *tensor.Program { return p.Plan().Program }

func (d cpuDevice) Compile(hash tensor.Hash, encoded []byte) (Program, error) {
	c, err := d.Device.Compile(hash, encoded)
	if err != nil {
		return nil, err
	}
	return cpuProgram{c}, nil
}

func (d cpuDevice) PlanStats() PlanStats {
	s := d.Stats()
	return PlanStats{Hits: s.Hits, Misses: s.Misses, Evicted: s.Evicted, Plans: s.Plans, Bytes: s.PlanBytes}
}

func (d cpuDevice) Open() Space { return cpuSpace{d.Device.Open()} }

type cpuSpace struct{ *cpu.Space }

func (s cpuSpace) Run(p Program, base uint64, inputs []uint64, scalars []float64) error {
	return s.Space.Run(p.(cpuProgram).Compiled, base, inputs, scalars)
}

func (s cpuSpace) Lookup(id uint64) (Value, bool) {
	v := s.Space.Lookup(id)
	if v == nil {
		return Value{}, false
	}
	return Value{v.DType, v.Shape, v.Block}, true
}
