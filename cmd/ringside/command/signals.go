package command

import (
	"os"
	"os/signal"
	"syscall"
)

// StopSignals returns the signals that end the program in good order: an interrupt,
// SIGTERM and, unless the program was started by nohup or the like, the end of its
// terminal.
func StopSignals() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}
