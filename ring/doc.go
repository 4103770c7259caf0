// Package ring is a bounded single-producer single-consumer queue of records over a
// caller's []byte, a doorbell for an end that sleeps, and the policy by which it waits.
// Where the bytes come from is the caller's affair: shared memory between processes, or
// the heap in tests.
//
// A ring is a header of HeaderSize bytes and then capacity bytes of data, a power of two.
// All words are little-endian, as the machines are that ringside is built for.
//
//	offset
//	     0  magic     8 bytes  written last by Init, read once at attach
//	     8  version   4 bytes  Layout
//	    12  unused    4 bytes  0
//	    16  capacity  8 bytes  of the data
//	   128  head      8 bytes  consumer writes: bytes ever released
//	   256  want      8 bytes  producer writes: the head that it waits for; 0: none
//	   384  unused             0
//	   512  data      capacity bytes
//
// Head and want have 128 bytes each, because adjacent cache lines are fetched in pairs.
// Positions only grow; position & (capacity-1) is the place in the data. In private
// memory the producer keeps its own position and the last head that it saw, the consumer
// its own position and the head that it last stored.
//
// The producer stores want when [Producer.Reserve] finds no room, or when
// [Producer.Passed] is asked about a record that is not released yet. The consumer rings
// once head has reached want.
//
// Words and their order:
//
//	word     writer    reader    order
//	magic,   Init      both, at  Init returns before the memory is shared
//	version,           attach
//	capacity
//	head     consumer  producer  the store of head synchronizes before the load that sees
//	                             it: the consumer is done with the bytes below head
//	want     producer  consumer  the producer stores want and then loads head; the
//	                             consumer stores head and then loads want; full fences
//	                             between, so one of them sees the other's store
//	record   producer  consumer  the store of the header synchronizes before the load that
//	header                       sees it: the body and the zero word after it are there.
//	                             In a batch, and behind padding, whose mark is a header
//	                             too, the first header is stored last, and its
//	                             store alone synchronizes: the consumer loads that
//	                             header before the others
//	zero     producer  consumer  stored before the header in front of it, whose store
//	word                         synchronizes
//
// Want stays set until the next Reserve that succeeds; meanwhile the consumer stores head
// at every Release.
//
// There is no shared tail. The records themselves say what is published, so that a short
// one costs the consumer a single cache line: it polls the line that will hold the
// record. Records are 8-byte aligned and never cross the end of the data:
//
//	0  length+1  4 bytes  of the body; 0: nothing here yet;
//	                      0xffffffff: go on at the start of the data
//	4  tag       4 bytes  the caller's
//	8  body      length bytes, then up to 7 bytes that mean nothing
//
// Reserve stores a zero word where the next header will be, the caller writes the body,
// and then the header is stored, which publishes the record. In a batch the header of the
// first record is stored last of all. From then on the bytes belong to the consumer,
// until it stores a head beyond them. The zero word needs room as well, so a ring holds 8
// bytes less than its capacity. The producer may also store zeros further ahead in free
// data (see Producer.fetchAhead), and while the ring is empty the producer's process may
// set the whole data to zeros (see Producer.Empty).
//
// Every word of a ring has one writer at a time (a bell's: see [BellSize]). Nothing is
// locked, so an end that dies leaves nothing that the other waits for, except one sleep
// of at most 100 ms (see Bell.Rouse). Each time a word of the peer is used it is loaded
// once, and that copy is checked: head against what is published, a length against the
// private copy of the capacity. Want is only compared. A hostile peer can send nonsense
// or nothing, and no more.
//
// # Fences
//
// An end that is about to sleep stores "asleep" to the bell and then loads the ring; the
// other end stores to the ring and then loads the bell. One of them must see the other's
// store, so there has to be a full fence between store and load on both sides. The four
// stores are: "asleep" in the bell of a consumer, "asleep" in the bell of a producer that
// waits for room (ConsumerOptions.Space), head, and a record's header. For the first
// three the fence is Go's atomic store: XCHG on amd64, STLR followed by LDAR on arm64.
// The same store is the fence between want and the load of head. It is also the fence
// after a header, except on amd64 without the race detector.
//
// A full fence after the header would be paid for every record: on amd64 it waits until
// the record's lines have come over from the other core. On amd64 the sleeper pays for
// both: the barrier of [Futex] makes the other core pass a fence, the producer publishes
// by a MOV and loads the bell by another. Without such a barrier, or before the sleeper
// has promised one, Bell.Ring makes the fence. Ring is one load while no end sleeps.
//
// # Lingering
//
// A consumer that polls the line of the next record takes it away from the core that
// writes it. That is unavoidable while both wait for each other's answers. In a stream it
// halves the rate of both, so a consumer that finds records coming without end waits a
// few microseconds whenever it has caught up: see linger in consumer.go.
package ring
