// Package gather gets many peers' compressed updates on all ranks at once, and has every
// rank agree on one result: which peers take part, and why each of the others does not.
//
//	plan.go deal.go         what is to be gathered, on which rank
//	record.go claims.go fetch.go  what a rank found at a peer; once per rank
//	merge.go result.go      what all ranks found, put together
//	control.go gatherer.go  the ranks in step; ranks that are lost
//	walk.go                 all peers' rows, tile by tile, on the rank that owns them
//
// The result is a pure function of the plan and of the payloads. It does not depend on
// the number of ranks, nor on the order in which payloads arrive.
//
//	rank 0           rank 1           rank 2
//	plan ──────────▶ plan ──────────▶ plan        broadcast; digests compared
//	GET 0, 3, 6      GET 1, 4, 7      GET 2, 5    peer i of the sorted list: rank i mod R
//	   │                │                │        payloads stay in each rank's spool
//	   └── records ─────┴─── all-gather ─┘        some hundred bytes a peer
//	merge            merge            merge       the same on every rank
//	reserves?        reserves?        reserves?   again with those that are to replace
//	flags ───────────┴─── all-gather ─┘           SKIP, ABORT; digests of the result
//
// A rank alone takes the same path without a group.
//
// Package codec is the format of the payloads, package store gets them, package apply
// updates a model by a result, package overlap finds peers that copy from each other,
// package artifact publishes the aggregate, package outer trains by it.
//
// # Differences to the specification
//
// A record holds the payload's digest and that of its indices; the sampled signature of
// rows is left out, because the exact overlap takes one pass over rows that are read
// anyway. Plans carry a timeout and no point in time: clocks of hosts differ.
//
// A header's length, and with it MaxPayload, is bounded by the manifest, and a payload's
// meta by 4 KiB: every rank gets the records of all peers. An object without a time of
// its last change is TOO_LATE where the plan has bounds.
//
// Left out are hedged requests, for a peer is asked once; the flags RETRY and CATCHUP,
// for a lost rank's peers are dealt again in the same window, and windows that were
// missed are applied from what was published; the mode fp32_ordered, for sums of float32
// in two orders differ by more than each of them does from the exact sum; and the
// artifact of merged positions: 20 peers with 64 of 4096 coefficients fill a quarter of
// all positions, which take more bytes in float32 than the peers' payloads do.
package gather
