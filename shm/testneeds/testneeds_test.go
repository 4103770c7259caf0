package testneeds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	said []string
}

var errEnd = errors.New("the test has ended")

func (r *recorder) Helper() {}

func (r *recorder) Logf(f string, args ...any) {
	r.said = append(r.said, fmt.Sprintf("log: "+f, args...))
}

func (r *recorder) Skipf(f string, args ...any) { r.end("skip: "+f, args...) }

func (r *recorder) Fatalf(f string, args ...any) { r.end("fail: "+f, args...) }

func (r *recorder) end(f string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(f, args...))
	panic(errEnd)
}

// run plays a test, and returns what it said.
func run(test func(t testing.TB)) []string {
	r := &recorder{}
	func() {
		defer func() {
			if err := recover(); err != nil && err != errEnd {
				panic(err)
			}
		}()
		test(r)
		r.said = append(r.said, "went on")
	}()
	return r.said
}

// TestPromises plays tests that lack something, where it is promised, where something
// else is, and where nothing is.
func TestPromises(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	there := filepath.Join(os.Getenv("PATH"), "there")
	if err := os.WriteFile(there, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const missing = `exec: "gcc": executable file not found in $PATH`
	for _, c := range []struct {
		name string
		test func(t testing.TB, getenv func(string) string)
		kept string   // what the test says where the variable is set
		not  []string // and where it isn't
	}{
		{"Skipf", func(t testing.TB, getenv func(string) string) { GCC.Skipf(t, getenv, "no %s", "gcc") },
			"fail: TESTS_NEED_GCC is set, but no gcc", []string{"skip: no gcc"}},
		{"Logf", func(t testing.TB, getenv func(string) string) { GCC.Logf(t, getenv, "no %s", "gcc") },
			"fail: TESTS_NEED_GCC is set, but no gcc", []string{"log: no gcc", "went on"}},
		{"Program", func(t testing.TB, getenv func(string) string) { GCC.Program(t, getenv, "gcc") },
			"fail: TESTS_NEED_GCC is set, but " + missing, []string{"skip: " + missing}},
		{"Program that is there", func(t testing.TB, getenv func(string) string) {
			if path := GCC.Program(t, getenv, "there"); path != there {
				t.Fatalf("%s, expected %s", path, there)
			}
		}, "went on", []string{"went on"}},
	} {
		for set, want := range map[Promise][]string{GCC: {c.kept}, MPI: c.not, "": c.not} {
			getenv := func(name string) string { return map[string]string{string(set): "1"}[name] }
			if said := run(func(t testing.TB) { c.test(t, getenv) }); !slices.Equal(said, want) {
				t.Errorf("%s with %q: %q, expected %q", c.name, set, said, want)
			}
		}
	}
}

// TestListed looks for every promise in the sources of this package, the Makefile or
// .ci/run, which make it, and CONTRIBUTING.md.
func TestListed(t *testing.T) {
	read := func(names ...string) (text string) {
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
		return text
	}
	variable := regexp.MustCompile(`\bTESTS_NEED_[A-Z0-9]+\b`)
	defined := variable.FindAllString(read("testneeds.go"), -1)
	if len(defined) != 12 {
		t.Fatalf("%d promises %q, expected 12", len(defined), defined)
	}
	promised, listed := read("../../Makefile", "../../.ci/run"), read("../../CONTRIBUTING.md")
	for _, name := range defined {
		if !strings.Contains(promised, name+"=1") {
			t.Errorf("neither the Makefile nor .ci/run sets %s=1", name)
		}
		if !strings.Contains(listed, "`"+name+"`") {
			t.Errorf("CONTRIBUTING.md does not list `%s`", name)
		}
	}
	for _, name := range variable.FindAllString(promised+listed+read("../../docs/gpu.md"), -1) {
		if !slices.Contains(defined, name) {
			t.Errorf("%s is no promise, expected one of %q", name, defined)
		}
	}
}
