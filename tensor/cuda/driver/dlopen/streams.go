package dlopen

import (
	"errors"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type streams struct{ l *library }

func (s streams) StreamCreate(flags driver.StreamFlags, priority int) (driver.Stream, error) {
	return get[driver.Stream](s.l, streamCreate, uintptr(flags), uintptr(priority))
}

func (s streams) StreamDestroy(st driver.Stream) error { return s.l.call(streamDestroy, uintptr(st)) }

func (s streams) StreamSynchronize(st driver.Stream) error {
	return s.l.call(streamSynchronize, uintptr(st))
}

func (s streams) StreamQuery(st driver.Stream) (bool, error) {
	return ready(s.l.call(streamQuery, uintptr(st)))
}

// ready turns the error of a query into an answer.
func ready(err error) (bool, error) {
	if errors.Is(err, driver.NotReady) {
		return false, nil
	}
	return err == nil, err
}

func (s streams) StreamWaitEvent(st driver.Stream, e driver.Event) error {
	return s.l.call(streamWaitEvent, uintptr(st), uintptr(e), 0)
}

func (s streams) StreamWriteValue32(st driver.Stream, p driver.DevicePtr, v uint32) error {
	return s.l.call(streamWriteValue32, uintptr(st), uintptr(p), uintptr(v), 0)
}

func (s streams) StreamWaitValue32(st driver.Stream, p driver.DevicePtr, v uint32) error {
	const greaterOrEqual = 0
	return s.l.call(streamWaitValue32, uintptr(st), uintptr(p), uintptr(v), greaterOrEqual)
}
