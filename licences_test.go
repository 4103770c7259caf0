package ringside

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var writeNotice = flag.Bool("write-notice", false, "write NOTICE from the module cache")

// licences are those that a dependency may have, each with a sentence of its text.
var licences = map[string]string{
	"Apache-2.0": "apache license version 2.0, january 2004",
	"MIT":        "permission is hereby granted, free of charge, to any person obtaining a copy of this software",
	"BSD":        "redistribution and use in source and binary forms, with or without modification, are permitted",
}

// unwanted are titles of licences that a dependency may not have.
var unwanted = []string{
	"general public license", "mozilla public license", "eclipse public license",
	"server side public license", "business source license",
}

var (
	licenceFile   = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-].*)?$`)
	noticeFile    = regexp.MustCompile(`(?i)^notice([.-].*)?$`)
	copyrightLine = regexp.MustCompile(`(?i)^copyright ?(\(c\)|©|[0-9]).*$`)
)

// TestNotice reads the licence files of all modules whose packages are linked into this
// module's programs and tests, and compares NOTICE with them. After a change of
// dependencies:
//
//	go test . -run TestNotice -write-notice
func TestNotice(t *testing.T) {
	want := notice(t)
	if *writeNotice {
		if err := os.WriteFile("NOTICE", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("NOTICE differs from the licence files of the dependencies: run go test . -run TestNotice -write-notice and read the difference")
	}
}

// notice makes the text of NOTICE.
func notice(t *testing.T) []byte {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-test", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var b bytes.Buffer
	b.WriteString("ringside is licensed under the Apache License, Version 2.0: see LICENSE.\n\n" +
		"Its programs and tests link the modules below. A module's own licence files have the full\n" +
		"texts: a distribution of binaries must carry them along (go mod vendor collects them).\n")
	modules := strings.Fields(string(bytes.ReplaceAll(out, []byte(" "), []byte("@"))))
	dirs := map[string]string{}
	for i := 0; i+1 < len(modules); i += 2 {
		dirs[modules[i]] = modules[i+1]
	}
	if len(dirs) == 0 {
		t.Fatal("go list names no dependency")
	}
	for _, module := range slices.Sorted(maps.Keys(dirs)) {
		names, copyrights := readLicences(t, module, dirs[module])
		fmt.Fprintf(&b, "\n%s\n    licence: %s\n", module, strings.Join(names, ", "))
		for _, line := range copyrights {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		for _, text := range filesLike(t, dirs[module], noticeFile) {
			for line := range strings.Lines(text) {
				b.WriteString(strings.TrimRight("    notice: "+strings.TrimSpace(line), " ") + "\n")
			}
		}
	}
	return b.Bytes()
}

// readLicences returns the licences that the files in a module's folder are of, and their
// lines of copyright. It fails the test for a file of no licence in the list, and for a
// module without a licence.
func readLicences(t *testing.T, module, dir string) (names, copyrights []string) {
	t.Helper()
	for _, text := range filesLike(t, dir, licenceFile) {
		for line := range strings.Lines(text) {
			if line = strings.Trim(strings.TrimSpace(line), "*"); copyrightLine.MatchString(line) && !slices.Contains(copyrights, line) {
				copyrights = append(copyrights, line)
			}
		}
		words := strings.Join(strings.Fields(strings.ToLower(text)), " ")
		found := len(names)
		for _, name := range slices.Sorted(maps.Keys(licences)) {
			if strings.Contains(words, licences[name]) {
				names = append(names, name)
			}
		}
		if len(names) == found {
			t.Errorf("%s: a licence file of none of %v: %.80q", module, slices.Sorted(maps.Keys(licences)), words)
		}
		for _, title := range unwanted {
			if strings.Contains(words, title) {
				t.Errorf("%s: the licence file names a %q", module, title)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s has no licence file in %s", module, dir)
	}
	slices.Sort(names)
	return slices.Compact(names), copyrights
}

// filesLike returns the texts of the files in dir whose names match.
func filesLike(t *testing.T, dir string, name *regexp.Regexp) (texts []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || !name.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}
