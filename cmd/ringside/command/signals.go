package command

import (
	"os"
	"os/signal"
	"syscall"
)

// StopSignals are those that end the program in good order: an interrupt, SIGTERM, and, unless the program was started
// by something like nohup, the end of its terminal.
func StopSignals() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}
