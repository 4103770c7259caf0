// Package shm is memory that processes of one host share: segments that are
// mapped, an arena that hands out blocks of them, handles that travel instead of
// bytes, and the futex to sleep on a word of them. It is the only package that
// maps memory.
//
// A segment is a file without a name, made with O_TMPFILE in /dev/shm or, where
// that is missing or too small, with memfd_create. A peer gets its descriptor, so
// there is nothing to guess, and nothing to remove: when the last process that
// has it is gone, however it went, so is the memory. Reserved and Private segments are
// no files and have no peers.
//
// The description of the memory (which bytes are free, which owner holds which block) is
// on the heap of the process that made it and never in the segment, so that a peer can
// damage contents but not bookkeeping. Handles come from the peer; they are checked
// before they are used. A segment has no words of its own: a package that puts words
// there (ring) says which end writes each of them, and in which order.
//
//	Arena   our memory: Alloc gives a Block, Block.Handle what to send
//	Table   theirs: Open turns a Handle that came into a Block
//
// A segment is pages and nothing else. In an arena it is cut up like this, and a handle
// is where a block lies:
//
//	| slab: slots of one size to 32 KiB | a block in pages of its own | free pages | ..
//	  [64][64][64][64][64]...             [ 5 MiB                   ]
//	  Handle{Segment, Off, Len}           Off is a multiple of 4096
//	  Off is a multiple of 64
//
// # What a peer can do to us
//
// A process that is given the descriptor of a file can do to it what the kernel permits.
// Each of these is met where it matters:
//
//   - Shrink it. The next access beyond its end is SIGBUS, and ends the process. A Memfd
//     is sealed against that for every process, its maker included; a file of /dev/shm
//     cannot be sealed. So segments that others map come from Memfd, and a process that
//     maps those of peers that it does not trust sets Options.Sealed or
//     TableOptions.Sealed, which refuses anything that can still shrink.
//   - Punch holes. In a Memfd of ordinary pages a hole reads as zeros: nonsense, as the
//     peer could have written anyway. Sealed refuses files of other kinds.
//   - Write to it. A peer that only needs to read is given a segment made with
//     Options.PeersRead: not even the process that made it can get a second mapping for
//     writing. Where a peer must write (rings, bells), each word is read once and
//     checked, see package ring.
//   - Read all of it. Sharing a segment shares every block in it, also those whose
//     handles went to others. A block that some peer must not read belongs in another
//     arena.
//
// A segment of a Tmpfs has none of these seals. It is for peers that are trusted as far
// as their user, and for systems where shared memory must be a mounted file system: to
// bound it, or to see the rest.
package shm
