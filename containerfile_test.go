package ringside

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestContainerfile checks what building the image would: files that it copies are there,
// from the tree or from the stage before, the package that it compiles is a command, and
// its Go is that of go.mod.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(mod))
	if version == nil {
		t.Fatal("go.mod has no line of Go's version")
	}
	stages := map[string]string{} // what each stage has built
	var copied, built int
	stage := ""
	for _, line := range strings.Split(string(text), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		args := strings.Fields(rest)
		switch word {
		case "FROM":
			if stage = ""; len(args) == 3 && args[1] == "AS" {
				stage = args[2]
			}
			if image, tag, _ := strings.Cut(args[0], ":"); image == "golang" && !strings.HasPrefix(version[1]+".", strings.TrimSuffix(tag, "-bookworm")+".") {
				t.Errorf("%s, but go.mod has Go %s", line, version[1])
			}
		case "COPY":
			from, isStage := strings.CutPrefix(args[0], "--from=")
			if isStage {
				args = args[1:]
			}
			for _, source := range args[:len(args)-1] {
				copied++
				if isStage && source != stages[from] {
					t.Errorf("%s: stage %q has built %q", line, from, stages[from])
				}
				if isStage {
					continue
				}
				if _, err := os.Stat(source); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "RUN":
			m := regexp.MustCompile(`go build .*-o (\S+) (\S+)$`).FindStringSubmatch(line)
			if m == nil {
				continue
			}
			built++
			stages[stage] = m[1]
			main, err := os.ReadFile(path.Join(m[2], "main.go"))
			if err != nil || !strings.Contains(string(main), "\npackage main\n") {
				t.Errorf("%s: %s is no command: %v", line, m[2], err)
			}
		case "ENTRYPOINT":
			if want := `["` + path.Base(stages["build"]) + `"]`; rest != want {
				t.Errorf("%s, expected %s", line, want)
			}
		}
	}
	if copied < 4 || built != 1 {
		t.Errorf("%d files are copied, %d commands built", copied, built)
	}
}
