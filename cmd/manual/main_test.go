package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/cmd/ringside/command"
)

// TestBlocks: lines of examples and lists stay lines of their own in man pages.
func TestBlocks(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, command.NewRootCommand()); err != nil {
		t.Fatal(err)
	}
	for page, lines := range map[string][]string{
		"generate": {"ringside train --checkpoint run --save model.safetensors", `ringside generate --load run --prompt "The rays of light "`},
		"train":    {"fashion-mlp ", "qwen3-small "},
		"gather":   {"ringside gather inspect FILE "},
	} {
		b, err := os.ReadFile(filepath.Join(dir, "share/man/man1/ringside-"+page+".1"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), `\\-`, "-")
		blocks := ""
		for _, part := range strings.Split(text, "\n.EX\n")[1:] {
			block, _, _ := strings.Cut(part, "\n.EE")
			blocks += "\n" + block
		}
		for _, line := range lines {
			if !strings.Contains(strings.ReplaceAll(blocks, "\n  ", "\n"), "\n"+line) {
				t.Errorf("%s: %q is no line of a block in\n%s", page, line, text)
			}
		}
	}
}
