// Package ring is a bounded single-producer single-consumer queue of records
// over a caller's []byte, a doorbell for a consumer that sleeps, and the policy
// by which it waits. Where the bytes come from is the caller's affair: shared
// memory between processes, or the heap in tests.
//
// A ring is a header of HeaderSize bytes and then capacity bytes of data, a
// power of two. All words are in the byte order of the machine; both ends live
// on one host.
//
//	offset
//	     0  magic     8 bytes  written last by Init, read once at attach
//	     8  version   4 bytes  Layout
//	    12  zero      4 bytes
//	    16  capacity  8 bytes  of the data
//	   128  tail      8 bytes  producer writes: bytes ever published
//	   256  head      8 bytes  consumer writes: bytes ever released
//	   384  want      8 bytes  producer writes: the head it waits for, or 0
//	   512  data      capacity bytes
//
// Each index has 128 bytes to itself, because adjacent cache lines are fetched
// in pairs. Indices only grow; index & (capacity-1) is the place in the data.
// The bytes in [head, tail) belong to the consumer, all others to the producer.
// A byte changes hands when the index that passes over it is stored: the
// producer's store of tail synchronizes before the consumer's load that sees
// it, and the consumer's store of head before the producer's load.
//
// A record is 8-byte aligned and never crosses the end of the data:
//
//	0  length  4 bytes  of the body, or 0xffffffff: skip to the start of the data
//	4  tag     4 bytes  the caller's
//	8  body    length bytes, then up to 7 bytes that mean nothing
//
// Every word has one writer. Nothing is locked, so an end that dies leaves
// nothing for the other to wait on. What is read from the peer is read once,
// checked against the private copy of the capacity, and then used: a hostile
// peer can send nonsense and can stop sending, and that is all.
//
// # Fences
//
// An end that is about to sleep stores "I sleep" and then loads the index; the
// other end stores the index and then loads "does it sleep?". One of them must
// see the other's store, and for that both stores have to be full fences. They
// are Go's atomic stores: XCHG on amd64, STLR followed by LDAR on arm64. So
// Producer.Publish is the fence that Bell.Ring relies on, and Ring itself is one
// load while nobody sleeps.
package ring
