// Package nccl is comm.Library over libnccl.so.2, found when the program runs: no cgo, no
// headers, no toolkit.
//
//	open.go        finds and checks the library
//	symbols.go     the functions that it must have
//	abi.go         numbers of its interface, and where each comes from
//	status.go      its codes
//	comm_unsafe.go a communicator, and its calls
//	call_unsafe.go makes a call
//
// # Waiting
//
// Communicators are made with blocking = 0: a call that would wait for other ranks
// returns ncclInProgress instead, and ncclCommGetAsyncError says when it is done. So no
// thread is in the library while another process is waited for, and a communicator can be
// aborted at any time.
//
// # Bits
//
// NCCL chooses how the ranks fold by their number, the size of the value and the links
// between the GPUs, so its order of folding is its own. All ranks have the same bits.
package nccl
