package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/train"
)

// checkLoaded returns an error that names --load unless the weights at path are those of
// the model m. An empty path is no error.
func checkLoaded(ctx context.Context, m *train.Model, path string) error {
	if path == "" {
		return nil
	}
	if _, err := train.ModelOf(path); err != nil && !errors.Is(err, train.ErrModel) {
		return withPlace("--load", path, err)
	}
	sess, err := here()
	if err != nil {
		return err
	}
	defer sess.close()
	if err := m.Fits(ctx, sess.Session, path); err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	return nil
}

// checkResumed checks the checkpoint of --resume and the --steps that a run goes on to.
// Of a run that is at its end, atEnd says so.
func checkResumed(flags *pflag.FlagSet, m *train.Model, o *train.Options) (atEnd string, err error) {
	if o.Resume == "" {
		return "", nil
	}
	c, err := checkpoint.Open(o.Resume)
	if err != nil {
		return "", withPlace("--resume", o.Resume, err)
	}
	defer c.Close()
	if err := m.Resumes(o.Resume, nil); err != nil {
		return "", fmt.Errorf("--resume: %w", err)
	}
	done := c.Step
	ended := c.Notes["steps"] == fmt.Sprint(done)
	switch {
	case flags.Changed("steps") && uint64(o.Steps) <= done:
		own := ", or none to go on to its own end"
		if ended {
			own = ""
		}
		return "", usagef("--steps %d: the run in %s has done %d; --steps counts from its start: expected more than %d, such as --steps %d%s", o.Steps, plain.Name(o.Resume), done, done, done+uint64(o.Steps), own)
	case !flags.Changed("steps") && ended:
		return fmt.Sprintf("the run in %s is at its end, step %d, and is evaluated; --steps %d trains it as long again\n", plain.Name(o.Resume), done, 2*done), nil
	}
	return "", nil
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
	var gone *fs.PathError
	if flag == "--load" && !none && errors.As(err, &gone) && gone.Path == path && errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w; %s", flag, plain.Path(gone), weightsNear(path))
	}
	if !none && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return fmt.Errorf("%s: %w: %s; ringside train --checkpoint DIR saves a run there, in its end and with --every N after every N steps", flag, err, placeOf(path))
}

// weightsNear says how weights get to path, where nothing is, and which are beside it.
func weightsNear(path string) string {
	said := fmt.Sprintf("ringside train --checkpoint %s saves a run there, --save FILE weights to a file", shellWord(path))
	if filepath.Ext(path) == ".safetensors" {
		said = fmt.Sprintf("ringside train --save %s writes weights there, --checkpoint DIR a run to a folder", shellWord(path))
	}
	dir := filepath.Dir(path)
	files, err := filepath.Glob(filepath.Join(pattern(dir), "*.safetensors"))
	if err != nil {
		files = nil
	}
	var names []string
	for _, f := range files {
		// A link whose file is gone is listed, too: path itself may be one.
		if _, err := os.Stat(f); err == nil && filepath.Base(f) != filepath.Base(path) {
			names = append(names, filepath.Base(f))
		}
	}
	if len(names) > 0 {
		said += fmt.Sprintf("; the folder %s has the weights %s", plain.Name(dir), someNames(names))
	}
	return said + checkpointsIn(dir)
}

// checkpointsIn names some of the folders in dir that hold checkpoints, if any does.
func checkpointsIn(dir string) string {
	kept, err := filepath.Glob(filepath.Join(pattern(dir), "*", "manifest.json"))
	if err != nil || len(kept) == 0 {
		return ""
	}
	for i, k := range kept {
		kept[i] = plain.Name(filepath.Dir(k))
	}
	return "; checkpoints are in " + strings.Join(kept[:min(len(kept), 4)], ", ")
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
		if kept := checkpointsIn(near); kept != "" {
			return said + kept
		}
	}
	return said
}

// pattern returns the pattern of filepath.Glob that only path matches.
func pattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
