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
//	   128  head      8 bytes  consumer writes: bytes ever released
//	   256  want      8 bytes  producer writes: the head it waits for, or 0
//	   384  zero
//	   512  data      capacity bytes
//
// Each word has 128 bytes to itself, because adjacent cache lines are fetched in
// pairs. Positions only grow; position & (capacity-1) is the place in the data.
// Each end keeps its own position to itself, and the other's last one that it saw.
//
// There is no shared tail. What is published is said by the records themselves, so
// that a short one costs the consumer a single cache line: it polls the very line
// that will hold the record. Records are 8-byte aligned and never cross the end of
// the data:
//
//	0  length+1  4 bytes  of the body; 0: nothing here yet;
//	                      0xffffffff: go on at the start of the data
//	4  tag       4 bytes  the caller's
//	8  body      length bytes, then up to 7 bytes that mean nothing
//
// The producer writes the body, a zero word behind it where the next header will
// be, and then stores the header, which publishes the record: that store
// synchronizes before the consumer's load that sees it. In a batch only the first
// header is stored so, last of all. From then on the bytes belong to the consumer,
// until it stores a head beyond them; that store synchronizes before the producer's
// load. The zero word needs room as well, so a ring holds 8 bytes less than its
// capacity.
//
// Every word has one writer at a time. Nothing is locked, so an end that dies
// leaves nothing for the other to wait on. What is read from the peer is read
// once, checked against the private copy of the capacity, and then used: a hostile
// peer can send nonsense and can stop sending, and that is all.
//
// # Fences
//
// An end that is about to sleep stores "I sleep" and then looks at the ring; the
// other end stores to the ring and then loads "does it sleep?". One of them must
// see the other's store, and for that there has to be a full fence between store
// and load on both sides. Three of the four are Go's atomic stores: XCHG on amd64,
// STLR followed by LDAR on arm64.
//
// The fourth would be paid for every record: on amd64 it waits until the record's
// lines have come over from the other core. So there the sleeper pays for both: the
// barrier of [Futex] makes the other core pass a fence, and the producer publishes
// by a MOV and looks at the bell by another. Where there is no such barrier, or the
// sleeper has not promised one, Bell.Ring makes the fence. Ring is one load while
// nobody sleeps.
//
// # Staying behind
//
// A consumer that polls the line of the next record takes it away from the core
// that writes it. While both wait for each other's answers that is as it must be.
// In a stream it halves the rate of both, and so a consumer that finds records
// coming without end lets a few microseconds pass whenever it has caught up: see
// linger in consumer.go.
package ring
