// Package codec is the format of a peer's compressed update: how a parameter is cut into
// chunks, which coefficients of a chunk are sent, how indices and values are stored, and
// the container that carries them with a digest and a signature.
//
//	manifest.go kinds.go      what every payload of a run looks like
//	dct.go topk.go quant.go   coefficients, the choice of them, codebooks
//	index.go value.go         rows as bytes
//	header.go                 the container's header; canonical CBOR
//	encoder.go payload.go     an update becomes a container, with error feedback
//	recode.go                 codes of another format become a container
//	validate.go               a container is checked while it arrives
//	reader.go                 rows of a checked container
//	add.go                    adds such rows to sums in fixed point
//
// # Rows
//
// A parameter is a matrix of lines and columns. Tensors of more than two dimensions are
// [d0, the rest]; vectors are one line. A chunk is H × W elements, each side the largest
// divisor that is at most Config.Chunk. A row is one chunk, of TotalK = H·W coefficients:
//
//	    Width = Across · W
//	  ┌───────┬───────┬───────┐
//	H │ row 0 │ row 1 │ row 2 │  a band
//	  ├───────┼───────┼───────┤
//	  │ row 3 │ row 4 │ row 5 │
//	  └───────┴───────┴───────┘
//
// The encoder sends the K coefficients of the largest magnitude of each row, in
// ascending order of their index. A row of fewer than 16 coefficients, or one that is
// sent whole, has no indices (Dense).
//
// # The container GRD1
//
// All integers are little endian.
//
//	0    magic "GRD1"
//	4    version   u16  Version
//	6    flags     u16  1 bit: a signature follows the root
//	8    length    u32  of the header, at most 16 MiB
//	12   header    canonical CBOR, see Header
//	     zeros up to a multiple of 64
//	     sections: of each parameter its indices, zeros, its values, zeros;
//	               each begins at a multiple of 64
//	     leaves    32 bytes for every MiB so far: its BLAKE3-256
//	     root      BLAKE3-256 of "GRD1 root" and the leaves: the payload's digest
//	     signature ed25519 of "GRD1 signature" and the root, if the flag says so
//
// Rows of all codecs but Rice have a fixed length, so that any range of rows is found by
// arithmetic. For Rice the header has the offset of every BlockRows-th row. BlockRows is
// 16, not 256 as the draft of the format had it: a tile of the outer update has about 70
// rows, and would decode 256 for each end of it. A table entry costs 0.03 bit an index.
//
//	PACK12  i0 bits 0-7 | i0 bits 8-11, i1 bits 0-3 | i1 bits 4-11   pairs, 3 bytes
//	RICE    4 bits p, then for each index the gap to the one before, minus 1:
//	        gap>>p ones, a zero, p bits; least significant bit first; zeros to a byte
//	BITMAP  bit i of byte i/8: coefficient i is sent
//	U16     2 bytes an index
//
// A decoder gives up a Rice row that is longer than the best parameter could make it,
// so that Manifest.MaxPayload is exact. An index needs at most 16 bits, for a chunk's
// side is at most 256.
//
// # Checks
//
// Validate checks everything that a payload says against the manifest, in a fixed
// order, and the first failure is the payload's outcome. It takes a reader and holds the
// header and one row, whatever the payload's size.
package codec
