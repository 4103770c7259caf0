package fakecuda

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Launch is what one launch of a kernel did.
type Launch struct {
	Kernel       string
	Result       int    // 0 or a code of the driver
	Instructions uint64 // of warps
	// A global access of a warp touches sectors of 32 bytes. FewestSectors is how many
	// could have held the same bytes.
	Sectors, FewestSectors uint64
	// Conflicts counts the extra turns of shared memory's banks.
	Conflicts   uint64
	GlobalBytes uint64
	Findings    []string // races, uninitialised reads, divergence, bad addresses
}

// ReadLaunches reads the file that FAKECUDA_LAUNCHES named. No file is no launches.
func ReadLaunches(path string) ([]Launch, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Launch
	for d := json.NewDecoder(f); ; {
		var l Launch
		err := d.Decode(&l)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, launch %d: %w", path, len(out), err)
		}
		out = append(out, l)
	}
}
