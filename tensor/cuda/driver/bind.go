package driver

import "runtime"

// Bind calls f on a thread whose current context is c, and gives the thread its former
// context back afterwards. f may call Bind itself. It must not start goroutines that call
// the driver, and should not wait for other goroutines: a goroutine that holds its thread
// is slow to schedule.
//
// A call about the context that fails is made once more: f may give something back, which
// would stay otherwise, and an error after f would say that f failed.
func Bind(api API, c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	former, err := api.Current()
	if err != nil {
		former, err = api.Current()
	}
	if err != nil {
		return err
	}
	if former == c {
		return f()
	}
	if err := setCurrent(api, c); err != nil {
		return err
	}
	err = f()
	if e := setCurrent(api, former); err == nil {
		err = e
	}
	return err
}

// setCurrent makes c the thread's context, at the second attempt if need be.
func setCurrent(api API, c Context) error {
	if err := api.SetCurrent(c); err == nil {
		return nil
	}
	return api.SetCurrent(c)
}
