package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopSignals returns the signals that end the program in good order: an interrupt,
// SIGTERM and, unless the program was started by nohup or the like, the end of its
// terminal.
func stopSignals() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// stopped is the cause of the end of a context that a signal ended.
type stopped syscall.Signal

func (s stopped) Error() string { return "stopped by " + unix.SignalName(syscall.Signal(s)) }

// together is the time within which several signals are one: timeout(1) sends its signal
// to the process and then to the process's group. A person takes longer to press Ctrl-C
// again.
const together = 100 * time.Millisecond

// StopContext returns a context for Main that the first signal ends that asks the program
// to stop. After that an interrupt ends the process at once, unless it comes with the
// first. SIGTERM does not: the kernel sends it again to a child (PR_SET_PDEATHSIG) as its
// parent's threads die one by one.
func StopContext(parent context.Context) context.Context {
	ctx, end := context.WithCancelCause(parent)
	c := make(chan os.Signal, 1)
	rearm := func() { signal.Reset(os.Interrupt) }
	// A script starts its background processes with interrupts ignored, and Reset would
	// have them ignored again.
	if signal.Ignored(os.Interrupt) {
		rearm = func() {
			for <-c != os.Interrupt {
			}
			os.Exit(128 + int(syscall.SIGINT))
		}
	}
	signal.Notify(c, stopSignals()...)
	go stopOn(c, func(s os.Signal) { end(stopped(s.(syscall.Signal))) }, rearm)
	return ctx
}

// stopOn calls end with the first signal, and rearm when those are over that come
// together with it.
func stopOn(c <-chan os.Signal, end func(os.Signal), rearm func()) {
	end(<-c)
	over := time.After(together)
	for {
		select {
		case <-c:
		case <-over:
			rearm()
			return
		}
	}
}

// interruption returns what ended ctx, in words, and the exit status of a program that
// was stopped by it: 128 and the number of the signal, as shells have it.
func interruption(ctx context.Context) (what string, status int) {
	var s stopped
	if errors.As(context.Cause(ctx), &s) && syscall.Signal(s) != syscall.SIGINT {
		return s.Error(), 128 + int(s)
	}
	return "interrupted", 128 + int(syscall.SIGINT)
}

// interrupted returns the error of a command that ctx ended before its work was done, and
// which has printed what there is. advice says what is left, or how to go on; without
// any, nothing more is printed.
func interrupted(ctx context.Context, advice string) error {
	what, status := interruption(ctx)
	if advice == "" {
		return &exitError{errSilent, status}
	}
	return &exitError{fmt.Errorf("%s; %s", what, advice), status}
}
