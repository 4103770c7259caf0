// Package shm is memory that processes of one host share: segments that are
// mapped, an arena that hands out blocks of them, handles that travel instead of
// bytes, and the futex to sleep on a word of them. It is the only package that
// maps memory.
//
// A segment is a file without a name, made with O_TMPFILE in /dev/shm or, where
// that is missing or too small, with memfd_create. A peer gets its descriptor, so
// there is nothing to guess, and nothing to remove: when the last process that
// has it is gone, however it went, so is the memory.
//
// What describes the memory (which bytes are free, who holds which block) is on
// the heap of the process that made it and never in the segment, so that a peer
// can damage contents but not bookkeeping. A peer's own words are Handles; they
// are checked before they are used.
//
//	Arena   our memory: Alloc gives a Block, Block.Handle what to send
//	Table   theirs: Open turns a Handle that came into a Block
package shm
