//go:build nogpu

package command

import (
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// openDriver finds no driver: without the loader the program is linked statically.
func openDriver() (driver.API, error) { return nil, errWithoutGPU }

// openProducts finds no library either.
func openProducts(string, int) (blas.Library, error) { return nil, errWithoutGPU }

// openCollectives finds none either.
func openCollectives(string) (comm.Library, error) { return nil, errWithoutGPU }
