package driver

import "runtime"

// Bind calls f on a thread whose current context is c, and takes the context from the
// thread afterwards. f must not start goroutines that call the driver, and should not
// wait for other goroutines: a goroutine that holds its thread is slow to schedule.
func Bind(api API, c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := api.SetCurrent(c); err != nil {
		return err
	}
	err := f()
	if e := api.SetCurrent(0); err == nil {
		err = e
	}
	return err
}
