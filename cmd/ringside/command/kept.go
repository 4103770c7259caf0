package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/train"
)

// checkResumed checks the checkpoint of --resume and the --steps that a run goes on to.
// It tells w of a run that is at its end.
func checkResumed(w io.Writer, flags *pflag.FlagSet, o *train.Options) error {
	if o.Resume == "" {
		return nil
	}
	c, err := checkpoint.Open(o.Resume)
	if err != nil {
		return withPlace("--resume", o.Resume, err)
	}
	defer c.Close()
	done := c.Step
	atEnd := c.Notes["steps"] == fmt.Sprint(done)
	switch {
	case flags.Changed("steps") && uint64(o.Steps) <= done:
		own := ", or none to go on to its own end"
		if atEnd {
			own = ""
		}
		return usagef("--steps %d: the run in %s has done %d; --steps counts from its start: expected more than %d, such as --steps %d%s", o.Steps, plain.Name(o.Resume), done, done, done+uint64(o.Steps), own)
	case !flags.Changed("steps") && atEnd:
		fmt.Fprintf(w, "the run in %s is at its end, step %d, and is evaluated; --steps %d trains it as long again\n", plain.Name(o.Resume), done, 2*done)
	}
	return nil
}

// resumedData returns the data that the run in a checkpoint learnt from, empty if it is
// not there any more.
func resumedData(resume string) string {
	from, err := train.DataOf(resume)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(from); err != nil {
		return ""
	}
	return from
}

// withPlace adds to err, of what flag says is at path, what there is instead, and how a
// checkpoint gets there.
func withPlace(flag, path string, err error) error {
	none := errors.Is(err, checkpoint.ErrNone)
	if !none && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return fmt.Errorf("%s: %w: %s; ringside train --checkpoint DIR saves a run there, in its end and with --every N after every N steps", flag, err, placeOf(path))
}

// placeOf says what is at path, where no checkpoint is, and where ones are.
func placeOf(path string) string {
	files, err := os.ReadDir(path)
	said := fmt.Sprintf("the folder %s is empty", plain.Name(path))
	switch {
	case err != nil:
		said = fmt.Sprintf("there is no folder %s", plain.Name(path))
	case len(files) > 0:
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = f.Name()
		}
		said = fmt.Sprintf("the folder %s holds %s", plain.Name(path), someNames(names))
	}
	for _, near := range []string{path, filepath.Dir(path)} {
		kept, err := filepath.Glob(filepath.Join(pattern(near), "*", "manifest.json"))
		if err != nil || len(kept) == 0 {
			continue
		}
		for i, k := range kept {
			kept[i] = plain.Name(filepath.Dir(k))
		}
		return fmt.Sprintf("%s; checkpoints are in %s", said, strings.Join(kept[:min(len(kept), 4)], ", "))
	}
	return said
}

// pattern returns the pattern of filepath.Glob that only path matches.
func pattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
