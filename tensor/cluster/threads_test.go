package cluster

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm/limits"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		free, children, cores, each int
		err                         error
	}{
		{math.MaxInt, 3, 64, 0, nil},
		{6 + 3*(8+64), 3, 64, 0, nil},
		{6 + 3*(8+64) - 1, 3, 64, 63, nil},
		{6 + 3*(8+2), 3, 64, 2, nil},
		{6 + 3*(8+1), 3, 1, 0, nil},
		{6 + 3*(8+1) - 1, 3, 1, 0, ErrThreads},
		{0, 2, 8, 0, ErrThreads},
	} {
		each, err := fit(limits.Threads{Free: c.free}, c.children, c.cores)
		if each != c.each || !errors.Is(err, c.err) {
			t.Errorf("%d threads for %d children on %d cores: %d cores each, %v, expected %d, %v", c.free, c.children, c.cores, each, err, c.each, c.err)
		}
	}
}

// TestFitManyCores wants workers of large machines to use all cores where threads are
// many, and what is left of usual limits where they are not: then all of them together
// stay within the limit.
func TestFitManyCores(t *testing.T) {
	for _, cores := range []int{64, 128, 192, 384} {
		for _, children := range []int{2, 3, cores/2 + 1, cores + 1, MaxWorkers + 1} {
			all := threadsOfOwn + children*(threadsOfChild+cores)
			for _, free := range []int{math.MaxInt, all, all - 1, 33000, 10813, 4096, 512} {
				each, err := fit(limits.Threads{Free: free}, children, cores)
				least := threadsOfOwn + children*(threadsOfChild+1)
				switch {
				case free < least:
					if !errors.Is(err, ErrThreads) {
						t.Errorf("%d cores, %d children, %d threads: %v, expected ErrThreads", cores, children, free, err)
					}
				case err != nil || each < 0 || each >= cores || (each == 0) != (free >= all):
					t.Errorf("%d cores, %d children, %d threads: %d each, %v", cores, children, free, each, err)
				case each > 0 && threadsOfOwn+children*(threadsOfChild+each) > free:
					t.Errorf("%d cores, %d children: %d each need more than the %d threads", cores, children, each, free)
				case each > 0 && threadsOfOwn+children*(threadsOfChild+each+1) <= free:
					t.Errorf("%d cores, %d children: %d each, but %d threads are enough for more", cores, children, each, free)
				}
			}
		}
	}
}

// TestNoThreadIsTold has the error of a child that found no thread say so, in place of
// the last of its stacks.
func TestNoThreadIsTold(t *testing.T) {
	for _, said := range []string{
		"runtime: failed to create new OS thread (have 5 already; errno=11)\nruntime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc\n",
		"fakecgo: pthread_create failed: 11\nSIGABRT: abort\n",
		"runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\n",
	} {
		l := &tail{now: time.Now}
		for _, b := range []string{"begins\n", said, strings.Repeat("goroutine 1\n", lastWords)} {
			if _, err := l.Write([]byte(b)); err != nil {
				t.Fatal(err)
			}
		}
		err := ended(errors.New("signal: aborted"), l).Error()
		if !strings.HasPrefix(err, "signal: aborted: it found no thread") || strings.Contains(err, "goroutine") {
			t.Errorf("%q", err)
		}
	}
}
