//go:build cgo

package gorgonia_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver/drivertest"

	"github.com/ringside-go/ringside/tensor/cuda/driver/gorgonia"
)

// asChild is the first argument of the processes that the suite starts.
const asChild = "drivertest-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asChild {
		if err := drivertest.Child(gorgonia.Driver{}, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestSuite runs over the library that LD_LIBRARY_PATH leads to.
func TestSuite(t *testing.T) {
	drivertest.Run(t, gorgonia.Driver{}, drivertest.Options{
		Child:       func() *exec.Cmd { return exec.Command(os.Args[0], asChild) },
		Initialized: true,
	})
}
