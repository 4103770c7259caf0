package rendezvous

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdict")
	v := Verdict{Rank: 2, Stuck: true, Text: "it \"left\"\nafter\x1b calls"}
	if err := v.Write(path); err != nil {
		t.Fatal(err)
	}
	want := Verdict{2, true, "it \"left\"?after? calls"}
	if got, err := ReadVerdict(path, 3); err != nil || got != want {
		t.Errorf("%+v, %v; expected %+v", got, err, want)
	}
	if _, err := ReadVerdict(path, 2); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), path) {
		t.Errorf("rank 2 of 2: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if err := os.WriteFile(path, b[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadVerdict(path, 3); !errors.Is(err, ErrProtocol) {
			t.Errorf("%d bytes of %d: %+v, %v", n, len(b), got, err)
		}
	}
	for name, bad := range map[string]string{"negative": `{"rank":-1}`, "long": `{"rank":1,"text":"` + strings.Repeat("x", maxVerdict) + `"}`} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadVerdict(path, 3); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// six bytes each in JSON
	long := Verdict{Text: strings.Repeat("\x00", 2*maxVerdictText)}
	if err := long.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadVerdict(path, 1); err != nil || len(got.Text) != maxVerdictText {
		t.Errorf("a long text: %d bytes, %v", len(got.Text), err)
	}
	if _, err := ReadVerdict(path+"s", 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
