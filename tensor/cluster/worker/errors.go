package worker

import (
	"errors"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

var (
	// ErrNameTaken is returned by Serve when another worker of the dispatcher has the
	// name.
	ErrNameTaken = errors.New("worker: name taken")

	// ErrDispatcher is returned by Serve when the dispatcher is gone, stops, or broke the
	// protocol; it wraps the cause.
	ErrDispatcher = errors.New("worker: dispatcher gone")

	// ErrDevice is returned by Serve when the worker has lost its device; it wraps the
	// reason. A new process may find the device in order.
	ErrDevice = errors.New("worker: device lost")

	// ErrOption is returned by New for an option outside its range.
	ErrOption = errors.New("worker: bad option")
)

var (
	// errProtocol is returned for a mistake of the client, the dispatcher or another
	// worker that ends a session; with errInternal, for one of this worker.
	errProtocol = errors.New("protocol")

	// errTeam is returned when another worker of the session is gone or does not answer:
	// the session ends.
	errTeam = errors.New("the session's workers fell apart")

	// errInternal is returned for a bug of the worker that ends a session.
	errInternal = errors.New("internal error")

	// errQuota is returned when a session has as much memory as it may have.
	errQuota = errors.New("session's memory quota")

	// errUnread is returned when a client's queue has no room for an answer.
	errUnread = errors.New("the client reads no answers")

	// errAgain is returned by a handler that has done a part of a message. The same
	// message is handled again, before any other of its session.
	errAgain = errors.New("not done yet")

	// errSessionOver cancels the connecting of a session that has ended.
	errSessionOver = errors.New("the session is over")
)

// ends reports whether err ends its session.
func ends(err error) bool {
	return err != nil && (errors.Is(err, errProtocol) || errors.Is(err, errTeam))
}

// agreedError is the failure of one worker of a session, as all workers report it.
type agreedError struct{ wire.Done }

func (e *agreedError) Error() string { return e.Text }

// someFailed is the failure of instructions of a client's program that several workers
// run. The results which do not depend on them exist.
type someFailed struct{ all []*agreedError }

func (e *someFailed) Error() string { return e.all[0].Text }

// asAgreed returns err in the form in which all workers report it.
func asAgreed(err error) *agreedError {
	e := new(agreedError)
	explain(&e.Done, err)
	return e
}

// codes are the errors that keep their identity on the way to the client.
var codes = []struct {
	err  error
	code wire.Code
}{
	{errQuota, wire.CodeQuota},
	{tensor.ErrIndex, wire.CodeIndex},
	{tensor.ErrUnknown, wire.CodeUnknownID},
	{tensor.ErrNoSpace, wire.CodeNoMemory},
	{shm.ErrNoSpace, wire.CodeNoMemory},
	{tensor.ErrShape, wire.CodeShape},
	{tensor.ErrDType, wire.CodeDType},
	{tensor.ErrProgram, wire.CodeBadProgram},
	{tensor.ErrStopped, wire.CodeStopped},
	{tensor.ErrWork, wire.CodeWork},
}

// codeOf returns the code of an error of a batch.
func codeOf(err error) wire.Code {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return wire.CodeEngine
}

// explain writes err into an answer, which then has no results.
func explain(done *wire.Done, err error) {
	done.Results = done.Results[:0]
	done.Code = codeOf(err)
	var agreed *agreedError
	var some *someFailed
	if errors.As(err, &some) {
		done.Rest = true
		for _, x := range some.all[1:min(len(some.all), 1+wire.MaxFailures)] {
			done.More = append(done.More, moreOf(done.Base, true, x))
		}
		err = some.all[0]
	}
	if errors.As(err, &agreed) {
		done.Code, done.Text, done.At, done.Op, done.Inputs = agreed.Code, agreed.Text, agreed.At, agreed.Op, agreed.Inputs
		return
	}
	var at *tensor.RunError
	if errors.As(err, &at) {
		done.At, done.Op, done.Inputs = uint32(at.Instr)+1, at.Op[:min(len(at.Op), wire.MaxName)], wire.CutText(at.Inputs)
		err = at.Err
	}
	done.Text = wire.CutText(err.Error())
}

// explainAll is explain for a session that has only this worker. Its space runs the
// client's own programs, so their numbers and ids are those of the client.
func explainAll(done *wire.Done, err error) {
	explain(done, err)
	var f *device.Failure
	if !errors.As(err, &f) {
		return
	}
	done.Base, done.Rest = f.Base, f.Rest
	for _, x := range f.More[:min(len(f.More), wire.MaxFailures)] {
		done.More = append(done.More, moreOf(x.Base, x.Rest, x.Err))
	}
}

// moreOf returns err as a further failure of an answer.
func moreOf(base uint64, rest bool, err error) wire.Failure {
	var d wire.Done
	explain(&d, err)
	return wire.Failure{Base: base, Rest: rest, Code: d.Code, Text: wire.CutMore(d.Text), At: d.At, Op: wire.CutMore(d.Op), Inputs: wire.CutMore(d.Inputs)}
}

// failureCode returns the code by which a client is told that its session ended.
func failureCode(cause error) wire.Code {
	switch {
	case errors.Is(cause, errInternal):
		return wire.CodeInternal
	case errors.Is(cause, errTeam):
		return wire.CodeWorkerGone
	case errors.Is(cause, errUnread):
		return wire.CodeQuota
	}
	return wire.CodeProtocol
}
