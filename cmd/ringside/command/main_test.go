package command

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes the test binary the program itself when it is called with a subcommand.
// Clusters, clients and peers are processes of os.Executable.
func TestMain(m *testing.M) {
	if _, said := os.LookupEnv("RINGSIDE_FLIGHT"); !said {
		os.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
	}
	if len(os.Args) > 1 && os.Args[1] == rankArgument {
		os.Exit(rankOfTest(len(os.Args) > 2))
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		ctx := StopContext(context.Background())
		os.Exit(Main(ctx, NewRootCommand()))
	}
	os.Exit(m.Run())
}

// runtimeDir gives this test a runtime folder of its own, which must be empty in the end.
func runtimeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s is left in the runtime folder", path)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return dir
}

// imageFolder writes a few images in MNIST's files: class c is bright in the rows from 2c
// on.
func imageFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, dims []uint32, data []byte) {
		f, err := os.Create(filepath.Join(dir, name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z := gzip.NewWriter(f)
		head := []byte{0, 0, 8, byte(len(dims))}
		for _, d := range dims {
			head = binary.BigEndian.AppendUint32(head, d)
		}
		if _, err := z.Write(append(head, data...)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"train", "t10k"} {
		const n = 200
		labels, pixels := make([]byte, n), make([]byte, n*28*28)
		for i := range labels {
			labels[i] = byte(i % 10)
			for p := range 28 * 28 {
				pixels[i*28*28+p] = byte((i*7 + p*13) % 50)
				if row := p / 28; row/2 == i%10 {
					pixels[i*28*28+p] += 200
				}
			}
		}
		write(part+"-images-idx3-ubyte", []uint32{n, 28, 28}, pixels)
		write(part+"-labels-idx1-ubyte", []uint32{n}, labels)
	}
	return dir
}

// textFile makes a file of text that is easily learned.
func textFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fox.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
