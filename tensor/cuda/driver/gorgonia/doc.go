// Package gorgonia is driver.API over gorgonia.org/cu. It is a module of its own, which
// needs cgo, cuda.h of CUDA 11.8 to 12.9, and libcuda.so to link with. docs/decisions.md
// says why it is not the default.
//
// driver_unsafe.go calls package cu, call_unsafe.go is what cu lacks: memory and events
// of other processes, registration, graphs, virtual memory and some attributes, by the
// same library; and rows and PTX, which it gets wrong.
//
// Importing the package calls cuInit, and ends the process with status 1 where that
// fails; without libcuda.so.1 the loader refuses the program.
package gorgonia
