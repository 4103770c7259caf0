package client

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

var (
	// ErrNoProgram is returned by Monitor.Program for a session that is not there or has
	// run no program.
	ErrNoProgram = errors.New("client: no program of a session")

	// ErrLost is returned when the session is over and its tensors are gone: the worker
	// or the dispatcher died, stopped, or ended it. The text says which process, and why
	// (see Errors in the package's documentation). When a process is gone it is also
	// ipc.ErrPeerGone. It is tensor.ErrLost, to which the session adds the tensors that
	// are lost.
	ErrLost error = &remoteError{"client: session lost", tensor.ErrLost}

	// ErrNoWorker is returned by Dial when the dispatcher has no worker; it is also
	// ErrLost.
	ErrNoWorker = errors.New("client: no worker")

	// ErrRemote is returned for a failure at the worker that none of package tensor's
	// errors describes.
	ErrRemote = errors.New("client: worker failed")
)

// errQuota is ErrLost because of a limit of the dispatcher.
var errQuota error = &remoteError{ErrLost.Error(), ErrLost}

// remoteError is an error of another process: its text, and the error that it is here.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// sentinels are what codes of failed runs are here.
var sentinels = map[wire.Code]error{
	wire.CodeIndex:       tensor.ErrIndex,
	wire.CodeUnknownID:   tensor.ErrUnknown,
	wire.CodeNoMemory:    tensor.ErrNoSpace,
	wire.CodeQuota:       tensor.ErrNoSpace,
	wire.CodeShape:       tensor.ErrShape,
	wire.CodeDType:       tensor.ErrDType,
	wire.CodeBadProgram:  tensor.ErrProgram,
	wire.CodeStopped:     tensor.ErrStopped,
	wire.CodeWork:        tensor.ErrWork,
	wire.CodeUnsupported: tensor.ErrDType,
}

// failure is the error that a Done carries, nil for none.
func failure(m *wire.Done) *tensor.Failure {
	if m.Code == wire.CodeOK {
		return nil
	}
	f := &tensor.Failure{Base: m.Base, Rest: m.Rest, Err: reason(m.Code, m.Text, m.At, m.Op, m.Inputs)}
	for i := range m.More {
		x := &m.More[i]
		f.More = append(f.More, &tensor.Failure{Base: x.Base, Rest: x.Rest, Err: reason(x.Code, x.Text, x.At, x.Op, x.Inputs)})
	}
	return f
}

// reason is the error of a code, with the instruction that failed if at is not 0.
func reason(code wire.Code, text string, at uint32, op, inputs string) error {
	err := &remoteError{text, cmp.Or(sentinels[code], ErrRemote)}
	if at == 0 {
		return err
	}
	return &tensor.RunError{Instr: int(at) - 1, Op: op, Inputs: inputs, Err: err}
}

// fails adds err, the error of a batch that no caller waits for, to late. It keeps all
// failures of programs, and the first of other errors.
func (p *progress) fails(err error) {
	was, ok := p.late.(*tensor.Failure)
	f, is := err.(*tensor.Failure)
	switch {
	case p.late == nil:
		p.late = err
	case ok && is:
		was.Join(f)
	}
}

// lost is the error that a Fail is.
func lost(m *wire.Fail) error {
	is := ErrLost
	switch m.Code {
	case wire.CodeWorkerGone, wire.CodeShutdown:
		is = fmt.Errorf("%w: %w", ErrLost, ipc.ErrPeerGone)
	case wire.CodeQuota:
		is = errQuota
	case wire.CodeNoWorker:
		is = fmt.Errorf("%w: %w", ErrLost, ErrNoWorker)
	}
	return fmt.Errorf("%w: %s", is, m.Text)
}
