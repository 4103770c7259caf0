// Package apart is a device for tests: the kernels of package cpu behind memory that no
// other code can touch, like that of a GPU. It is the proof that code which runs on a
// device.Device keeps to the contract.
//
//   - Values lie in blocks of reserved addresses (shm.Reserved). The bytes behind them
//     are mapped elsewhere, for the kernels alone. A load or store at a block's address
//     faults.
//
//   - Programs and copies run late: calls are queued, and a seeded choice at each call
//     says whether the queue runs now. A call that waits runs all of it. So an error of a
//     program comes late, and blocks are read after the call that was given them.
//
//   - Bytes that Read returned are overwritten at the space's next call.
//
//     device.go  the device and its memory
//     space.go   the queue, and what is known before it has run
package apart
