package dlopen

import "github.com/ringside-go/ringside/tensor/cuda/driver"

type events struct{ l *library }

func (e events) EventCreate(flags driver.EventFlags) (driver.Event, error) {
	return get[driver.Event](e.l, eventCreate, uintptr(flags))
}

func (e events) EventDestroy(ev driver.Event) error { return e.l.call(eventDestroy, uintptr(ev)) }

func (e events) EventRecord(ev driver.Event, s driver.Stream) error {
	return e.l.call(eventRecord, uintptr(ev), uintptr(s))
}

func (e events) EventQuery(ev driver.Event) (bool, error) {
	return ready(e.l.call(eventQuery, uintptr(ev)))
}

func (e events) EventSynchronize(ev driver.Event) error {
	return e.l.call(eventSynchronize, uintptr(ev))
}

func (e events) EventElapsed(start, end driver.Event) (float32, error) {
	return get[float32](e.l, eventElapsedTime, uintptr(start), uintptr(end))
}
