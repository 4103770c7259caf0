package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// configName is the file beside weightsName in which other libraries look for the model's
// config.
const configName = "config.json"

// configKey is the key of our own name of a model in a config. A config.json without it
// was written by another program.
const configKey = "ringside_model"

// maxConfig bounds a config.json that is read; those of published models have 1 KB.
const maxConfig = 1 << 20

// published is a model of a design that other libraries know.
type published interface {
	// Published returns the model's config by the names that its published form has in
	// config.json.
	Published() map[string]any
}

// configFor returns where the config belongs for weights that are saved to path; "" if
// the file does not have the name under which other libraries look for it.
func configFor(path string) string {
	if filepath.Base(path) != weightsName {
		return ""
	}
	return filepath.Join(filepath.Dir(path), configName)
}

// writable makes the folder of the file at path, and returns an error if the file can't
// be written.
func writable(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("train: write %s: its folder: %w", plain.Name(path), plain.Path(err))
	}
	return safetensors.Writable(path)
}

// mayConfigure returns an error if another program's config.json is where that of net,
// whose weights are saved to path, belongs.
func mayConfigure(path string, net nn.Layer) error {
	config := configFor(path)
	if _, ok := net.(published); !ok || config == "" {
		return nil
	}
	f, _, err := safetensors.OpenRegular(config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var have map[string]any
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err == nil {
		err = json.Unmarshal(b, &have)
	}
	if _, ours := have[configKey]; err != nil || !ours {
		return fmt.Errorf("%w: save %s: %s beside it is another program's (no %s in it); save to another folder or file name",
			ErrOption, plain.Name(path), plain.Name(config), configKey)
	}
	return nil
}

// save writes the weights of net to a file, with those of notes that are not empty, and
// beside it a config.json where it belongs. It returns what it wrote.
func (m *Model) save(path string, net nn.Layer, notes map[string]string) (files []string, err error) {
	notes = maps.Clone(notes)
	// A path may be no text.
	maps.DeleteFunc(notes, func(_, v string) bool { return v == "" || !utf8.ValidString(v) })
	// Other libraries load files of the format "pt", PyTorch's order of dims.
	notes[noteModel], notes["format"] = m.Name, "pt"
	if err := nn.Save(path, net.Params(), notes); err != nil {
		return nil, err
	}
	config := configFor(path)
	if p, ok := net.(published); ok && config != "" {
		return []string{path, config}, m.configure(config, p)
	}
	return []string{path}, nil
}

// Export writes the weights at from (as of Options.Load) as Options.Save does: to the
// file to if that is the name of a safetensors file, else to a model.safetensors in the
// folder to, with the config.json of a language model, for loaders of other libraries.
// Folders are made. A model.safetensors replaces only one that Export or Options.Save
// wrote, and not in a checkpoint's folder. The file has the fingerprint of the data that
// the weights learnt from, and not its path. Export returns the files that it wrote.
func (m *Model) Export(ctx context.Context, s *tensor.Session, from, to string) (files []string, err error) {
	if filepath.Ext(to) != filepath.Ext(weightsName) {
		to = filepath.Join(to, weightsName)
	}
	net, err := m.open(ctx, s, from)
	if err == nil {
		err = writable(to)
	}
	if err == nil {
		err = mayExport(to, net)
	}
	if err != nil {
		return nil, err
	}
	notes, err := notesAt(from)
	if err != nil {
		return nil, err
	}
	return m.save(to, net, map[string]string{noteTable: notes[noteTable], noteData: notes[noteData]})
}

// mayExport returns an error if the folder of the weights at path, where loaders look for
// them, belongs to others: a checkpoint, another program or another model.
func mayExport(path string, net nn.Layer) error {
	config := configFor(path)
	if config == "" {
		return nil
	}
	if kept, err := checkpoint.Open(filepath.Dir(path)); err == nil {
		err = fmt.Errorf("%w: export to %s: a checkpoint is there, whose later weights that file would hide; export to another folder",
			ErrOption, plain.Name(path))
		return errors.Join(err, kept.Close())
	}
	if _, ok := net.(published); ok {
		if err := mayConfigure(path, net); err != nil {
			return err
		}
	} else if _, err := os.Lstat(config); err == nil {
		return fmt.Errorf("%w: export to %s: %s beside it describes another model; export to another folder", ErrOption, plain.Name(path), plain.Name(config))
	}
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ours := false
	if err == nil {
		_, ours = f.Metadata()[noteModel]
		f.Close()
	}
	if !ours {
		return fmt.Errorf("%w: export to %s: that file is another program's; export to another folder or file name", ErrOption, plain.Name(path))
	}
	return nil
}

// configure writes the model's config to the file config.
func (m *Model) configure(config string, p published) error {
	c := p.Published()
	c[configKey] = m.Name
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	_, err = safetensors.Replace(config, os.FileMode(0o644), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	return err
}
