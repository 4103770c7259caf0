// Package load finds libraries when the program runs, for bindings over them.
package load

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

// Search says where to look for a library. The zero value is by the loader's rules, which
// LD_LIBRARY_PATH is one of.
type Search struct {
	// Folders are where the library is looked for after that.
	Folders []string

	// Sites are folders of Python's packages, some of which bring the library.
	Sites []string
}

// Candidates returns what may be the library of that file name, best first. packages are
// the folders within a site that may have it.
func (s *Search) Candidates(name string, packages ...string) []string {
	all := []string{name}
	for _, f := range s.Folders {
		all = append(all, filepath.Join(f, name))
	}
	for _, f := range s.Sites {
		for _, in := range packages {
			all = append(all, filepath.Join(f, in, name))
		}
	}
	return all
}

// First loads the first of several files that can be loaded, and returns its path. The
// library stays loaded until the process ends. The error is that of a file which is there
// and can't be loaded, or else of the first.
func First(candidates []string) (handle uintptr, path string, err error) {
	for _, c := range candidates {
		handle, e := purego.Dlopen(c, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if e == nil {
			return handle, mapped(c), nil
		}
		if _, there := os.Stat(c); there == nil || err == nil {
			err = e
		}
	}
	return 0, "", err
}

// Function returns the address of a function of a library.
func Function(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }

// mapped returns the file of a library that the loader found by its name.
func mapped(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return name
	}
	for line := range strings.Lines(string(maps)) {
		i := strings.IndexByte(line, '/')
		if i < 0 {
			continue
		}
		file := strings.TrimSuffix(line[i:], "\n")
		if base := filepath.Base(file); base == name || strings.HasPrefix(base, name+".") {
			return file
		}
	}
	return name
}
