//go:build !nogpu

package command

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
)

// openDriver returns the machine's CUDA driver, before Init.
func openDriver() (driver.API, error) {
	d, err := dlopen.Open("")
	switch {
	case errors.Is(err, dlopen.ErrNoLibrary):
		return nil, fmt.Errorf("%w: %w", errNoLibrary, err)
	case err != nil:
		return nil, err
	}
	return d, nil
}
