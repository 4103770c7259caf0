// Package drivertest is the suite of every driver.API: a table of misuse with the code
// that each call must return, and cases of right use, alone and between two processes.
//
// suite.go runs all of it in the environment of env.go, misuse.go holds the table,
// cases.go right use within a process, kernels.go and graphs.go that of programs, and
// child.go the process on the other side of handles. facts.go describes devices.
package drivertest
