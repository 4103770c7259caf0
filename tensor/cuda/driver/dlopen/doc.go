// Package dlopen is driver.API over libcuda.so.1, found when the program runs: a program
// that imports it needs no cgo, no CUDA headers and no toolkit, and starts on machines
// without a driver. It makes a program dynamically linked, so programs that never use a
// GPU, and libraries for clients, don't import it.
//
// open.go finds and checks the library, symbols.go lists what it must have, and
// call_unsafe.go makes a call. The other files hold the calls, a group of driver.API
// each.
//
// # Pointers
//
// The library takes addresses as integers. A pointer to Go memory becomes one inside the
// argument list of library.call, nowhere else: there the compiler keeps the object on the
// heap and alive until the call returns. Memory whose address lies in another object is
// held there as an unsafe.Pointer or pinned.
package dlopen
