// Command peers measures other libraries between two processes, for the tables of package
// bench. It is a module of its own, since only it needs these dependencies.
//
//	peers netpoll COUNT
//	peers shmipc COUNT
//	peers encoding/json COUNT FILE
//	peers sonic COUNT FILE
//
// It prints the nanoseconds of each round trip of 64 bytes, or of reading and writing the
// JSON in a file, as floats of 4 bytes, little endian. The other process is this program
// again, with the word "echo" and an address behind.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const messageBytes = 64

// library is how one of them echoes at an address and how it asks.
type library struct {
	echo func(addr string, ready func()) error
	dial func(addr string) (trip func() error, err error)
}

func libraries() map[string]library {
	return map[string]library{
		"netpoll": {echoNetpoll, dialNetpoll},
		"shmipc":  {echoShmipc, dialShmipc},
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: peers LIBRARY COUNT [FILE]")
	}
	lib, ok := libraries()[args[0]]
	codec, isJSON := jsonCodecs()[args[0]]
	if !ok && !isJSON {
		return fmt.Errorf("unknown library %q", args[0])
	}
	if ok && args[1] == "echo" && len(args) == 3 {
		return lib.echo(args[2], func() { fmt.Println("ready") })
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n <= 0 {
		return fmt.Errorf("count %q: expected a positive number", args[1])
	}
	if isJSON && len(args) == 3 {
		return measureJSON(codec, args[2], n)
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addr := filepath.Join(dir, "sock")
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	echo := exec.Command(exe, args[0], "echo", addr)
	echo.Stderr = os.Stderr
	out, err := echo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := echo.Start(); err != nil {
		return err
	}
	defer func() {
		_ = echo.Process.Kill()
		_ = echo.Wait()
	}()
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil {
		return fmt.Errorf("the echo process: %w", err)
	}
	// Where the address of the listener is chosen by the system it is in the file.
	if b, err := os.ReadFile(addr); err == nil {
		addr = string(b)
	}
	trip, err := lib.dial(addr)
	if err != nil {
		return err
	}
	return measure(os.Stdout, n, trip)
}

func measure(w io.Writer, n int, trip func() error) error {
	for range n/10 + 1 {
		if err := trip(); err != nil {
			return err
		}
	}
	return timed(w, n, trip)
}

// timed writes the nanoseconds of n calls.
func timed(w io.Writer, n int, trip func() error) error {
	out := make([]byte, 0, 4*n)
	for range n {
		start := time.Now()
		if err := trip(); err != nil {
			return err
		}
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(time.Since(start))))
	}
	_, err := w.Write(out)
	return err
}
