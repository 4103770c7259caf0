package worker

import (
	"bytes"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// Limits of what one session may have.
const (
	MaxPrograms     = 1024     // a client uses at most a quarter of this
	MaxProgramBytes = 64 << 20 // of encoded programs
)

// program is a program that a session's client sent.
type program struct {
	compiled device.Program  // in a session of one worker
	parsed   *tensor.Program // nil if err is set
	plans    planCache       // in a session of several workers: what it was rewritten to
	bytes    int             // encoded
	err      error           // why it cannot be run
	runs     uint64          // how often it was to be run
}

// check returns the program's error, or errProtocol if run does not have its inputs and
// scalars.
func (p *program) check(run *wire.Run) error {
	if p.err != nil {
		return p.err
	}
	if x := p.parsed; len(run.Inputs) != len(x.Externals) || len(run.Scalars) != x.NumScalars {
		return fmt.Errorf("%w: program %x with %d inputs and %d scalars, expected %d and %d", errProtocol,
			run.Hash, len(run.Inputs), len(run.Scalars), len(x.Externals), x.NumScalars)
	}
	return nil
}

// programs are the programs of one session.
type programs struct {
	byHash    map[tensor.Hash]*program
	bytes     int // of encoded programs
	assembler wire.Assembler
}

// add takes a part of a program. It returns the program's encoding when that is complete
// and new. The caller keeps it by put.
func (p *programs) add(body *wire.Body) (encoded []byte, err error) {
	encoded, err = p.assembler.Add(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if encoded == nil {
		return nil, nil
	}
	// A copy, before anything is checked: the bytes lie in a queue that the client can
	// write.
	encoded = append([]byte(nil), encoded...)
	hash := tensor.Hash(body.Hash)
	if is := tensor.HashOf(encoded); is != hash {
		return nil, fmt.Errorf("%w: program %v came as %v", errProtocol, is, hash)
	}
	if _, ok := p.byHash[hash]; ok {
		return nil, nil
	}
	if len(p.byHash) >= MaxPrograms || p.bytes+len(encoded) > MaxProgramBytes {
		return nil, fmt.Errorf("%w: %d programs of %d bytes, at most %d of %d", errProtocol,
			len(p.byHash)+1, p.bytes+len(encoded), MaxPrograms, MaxProgramBytes)
	}
	return encoded, nil
}

// put keeps a program of n encoded bytes.
func (p *programs) put(hash tensor.Hash, x *program, n int) {
	x.bytes = n
	p.byHash[hash] = x
	p.bytes += n
}

// find returns the program that run names, nil if it names none, and counts it. The error
// is errProtocol for a program that was never sent, otherwise the reason why it cannot be
// run.
func (p *programs) find(run *wire.Run) (*program, error) {
	if run.Hash == (wire.Hash{}) {
		return nil, nil
	}
	x := p.byHash[tensor.Hash(run.Hash)]
	if x == nil {
		return nil, fmt.Errorf("%w: program %x was never sent", errProtocol, run.Hash)
	}
	x.runs++
	if err := x.check(run); err != nil {
		return nil, err
	}
	return x, nil
}

// forget drops a program and adds its counts to m.
func (p *programs) forget(hash tensor.Hash, m *monitor) {
	if x, ok := p.byHash[hash]; ok {
		m.forgotten(x.parsed, x.runs)
		delete(p.byHash, hash)
		p.bytes -= x.bytes
	}
}

// shown returns the program of a hash, or for a hash of zeros the one that ran most
// often; nil if there is none.
func (p *programs) shown(want tensor.Hash) (hash tensor.Hash, most *program) {
	for h, x := range p.byHash {
		switch {
		case x.parsed == nil || want != (tensor.Hash{}) && h != want:
		case most == nil || x.runs > most.runs || x.runs == most.runs && bytes.Compare(h[:], hash[:]) < 0:
			hash, most = h, x
		}
	}
	return hash, most
}

// count adds the counts of all programs to ops, and returns how often they ran again.
func (p *programs) count(ops *opCounts) (hits uint64) {
	for _, x := range p.byHash {
		ops.add(x.parsed, x.runs)
		hits += max(x.runs, 1) - 1
	}
	return hits
}
