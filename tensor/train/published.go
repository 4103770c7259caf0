package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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

// mayConfigure returns an error if another program's config.json is where that of the
// weights at path belongs.
func mayConfigure(path string) error {
	config := configFor(path)
	if config == "" {
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
			ErrOption, path, config, configKey)
	}
	return nil
}

// configure writes the config.json for the weights at path.
func (m *Model) configure(path string, p published) error {
	config := configFor(path)
	if config == "" {
		return nil
	}
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
