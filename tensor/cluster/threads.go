package cluster

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// threadsOfChild is how many threads a child has besides those that run Go code: they
	// wait in system calls, or belong to the runtime.
	threadsOfChild = 8

	// threadsOfOwn is how many threads this process starts because of its cluster.
	threadsOfOwn = 6
)

// fit returns how many cores each of so many children may use so that all find the
// threads that they need; 0 if that is all cores. It returns ErrThreads if one core each
// is too many. It is an estimate that errs to the safe side: the Go runtime ends a
// process that finds no thread.
func fit(t limits.Threads, children, cores int) (each int, err error) {
	if need := threadsOfOwn + children*(threadsOfChild+1); t.Free < need {
		return 0, fmt.Errorf("%w: %d processes need %d, and %v: have fewer workers, or %s", ErrThreads, children, need, t, t.Raise(need))
	}
	if each = (t.Free-threadsOfOwn)/children - threadsOfChild; each < cores {
		return each, nil
	}
	return 0, nil
}

// fitThreads has the children use fewer cores where there are few threads.
func (c *Cluster) fitThreads() (err error) {
	children, cores := c.o.Workers+1, runtime.NumCPU()
	t := limits.Machine{}.Threads(threadsOfOwn + children*(threadsOfChild+cores))
	if c.cores, err = fit(t, children, cores); err == nil && c.cores > 0 {
		c.cores = min(c.cores, runtime.GOMAXPROCS(0))
		c.o.Threads = max(1, min(c.cores, c.o.Threads))
	}
	return err
}

// useFewCores has the program use no more cores than fitThreads allows.
func (c *Cluster) useFewCores(cmd *exec.Cmd) {
	if c.cores > 0 {
		cmd.Env = append(cmd.Environ(), "GOMAXPROCS="+strconv.Itoa(c.cores))
	}
}

// noThread is what the runtime of Go, and that which loads libraries without cgo, say
// before they end a process that finds no thread. Pages of stacks follow. A library that
// says "pthread_create failed" may go on without the thread.
var noThread = [...][]byte{[]byte("runtime: failed to create new OS thread"), []byte("cgo: pthread_create failed")}

// lacksThread reports whether a line says so.
func lacksThread(line []byte) bool {
	return bytes.Contains(line, noThread[0]) || bytes.Contains(line, noThread[1])
}
