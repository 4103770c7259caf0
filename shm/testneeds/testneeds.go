// Package testneeds is for tests that need what a machine may lack: a program, a
// privilege, a feature of the kernel. Where it is missing such a test is skipped, or
// leaves a part out. Where the environment promises it the test fails instead, so that
// it never stays out unnoticed where it was meant to run.
package testneeds

import (
	"os/exec"
	"testing"
)

// A Promise is a variable of the environment that, with any value, promises tests what
// they need.
type Promise string

// The Makefile's targets promise what they install, and .ci/run what its machines can.
// CONTRIBUTING.md says what each promises.
const (
	Root      Promise = "TESTS_NEED_ROOT"
	GCC       Promise = "TESTS_NEED_GCC"
	Generator Promise = "TESTS_NEED_GENERATOR"
	Peers     Promise = "TESTS_NEED_PEERS"
	S3        Promise = "TESTS_NEED_S3"
	MPI       Promise = "TESTS_NEED_MPI"
	Slurm     Promise = "TESTS_NEED_SLURM"
	Systemd   Promise = "TESTS_NEED_SYSTEMD"
	Kubectl   Promise = "TESTS_NEED_KUBECTL"
	Torch     Promise = "TESTS_NEED_TORCH"
	Python    Promise = "TESTS_NEED_PYTHON"
	Images    Promise = "TESTS_NEED_IMAGES"
)

// Skipf skips the test, which lacks what p promises, and says why. If getenv, which is
// os.Getenv, finds p, the test fails.
func (p Promise) Skipf(t testing.TB, getenv func(string) string, why string, args ...any) {
	t.Helper()
	p.check(t, getenv, why, args...)
	t.Skipf(why, args...)
}

// Logf is [Promise.Skipf] for a test that leaves out a part of itself.
func (p Promise) Logf(t testing.TB, getenv func(string) string, why string, args ...any) {
	t.Helper()
	p.check(t, getenv, why, args...)
	t.Logf(why, args...)
}

// Program returns the path of a program, which p promises. Without it see
// [Promise.Skipf].
func (p Promise) Program(t testing.TB, getenv func(string) string, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		p.Skipf(t, getenv, "%v", err)
	}
	return path
}

// check fails the test if getenv finds p.
func (p Promise) check(t testing.TB, getenv func(string) string, why string, args ...any) {
	t.Helper()
	if getenv(string(p)) != "" {
		t.Fatalf(string(p)+" is set, but "+why, args...)
	}
}
