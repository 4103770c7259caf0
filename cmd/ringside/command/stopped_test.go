package command

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// TestDispatcherStopped stops the dispatcher while a client trains. The training goes on
// to its end and says what it learned, without the dispatcher's figures.
func TestDispatcherStopped(t *testing.T) {
	runtimeDir(t)
	up := start(t, "up", "-n", "1")
	dispatcher, err := strconv.Atoi(up.wait(`^dispatcher: process (\d+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	addr := up.wait(`^ready at (\S+);`)[1]
	train := start(t, "train", "--connect", addr, "--data", textFile(t), "--steps", "300", "--batch", "2", "--sample=-1")
	train.wait(`step 10/300 `)
	if err := syscall.Kill(dispatcher, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(dispatcher, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if err := up.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		up.wait("^ended$")
	}()
	train.wait(`^steps +300 of batch 2 `)
	train.wait(`^loss +\d`)
	if err := train.end(); err != nil {
		t.Errorf("train with a stopped dispatcher: %v", err)
	}
}
