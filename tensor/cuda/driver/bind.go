package driver

import "runtime"

// Bind calls f on a thread whose current context is c, and gives the thread its former
// context back afterwards. f may call Bind itself. It must not start goroutines that call
// the driver, and should not wait for other goroutines: a goroutine that holds its thread
// is slow to schedule.
func Bind(api API, c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	former, err := api.Current()
	if err != nil {
		return err
	}
	if former == c {
		return f()
	}
	if err := api.SetCurrent(c); err != nil {
		return err
	}
	err = f()
	if e := api.SetCurrent(former); err == nil {
		err = e
	}
	return err
}
