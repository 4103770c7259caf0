package dlopen

import "github.com/ringside-go/ringside/tensor/cuda/driver"

type contexts struct{ l *library }

func (c contexts) SetCurrent(ctx driver.Context) error {
	return c.l.call(ctxSetCurrent, uintptr(ctx))
}

func (c contexts) Current() (driver.Context, error) {
	return get[driver.Context](c.l, ctxGetCurrent)
}

func (c contexts) CurrentDevice() (driver.Device, error) {
	return get[driver.Device](c.l, ctxGetDevice)
}

func (c contexts) Synchronize() error { return c.l.call(ctxSynchronize) }

func (c contexts) StreamPriorityRange() (least, greatest int, err error) {
	l, g, err := get2[int32, int32](c.l, ctxGetStreamPriorityRange)
	return int(l), int(g), err
}

func (c contexts) EnablePeer(peer driver.Context) error {
	return c.l.call(ctxEnablePeerAccess, uintptr(peer), 0)
}

func (c contexts) DisablePeer(peer driver.Context) error {
	return c.l.call(ctxDisablePeerAccess, uintptr(peer))
}
