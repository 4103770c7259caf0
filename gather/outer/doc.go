// Package outer trains one model by peers that share nothing but a store (DiLoCo): each
// takes some steps by itself, puts its compressed pseudo-gradient, and all apply the same
// outer step. It implements train.Outer.
//
//	outer.go   a peer's rounds
//	round.go   one round: put, gather, publish; what the peers agree on
//
// Round w of each peer, where window w is the store's name of it:
//
//	peer 1                    store                    peer 2
//	inner steps                                        inner steps
//	before - after ────▶ update-w-1  update-w-2 ◀──── before - after
//	gather all         ◀────        ────▶              gather all
//	publish, first     ────▶ aggregate-w.json ◀────    refused: takes that one
//	outer step                                         outer step
//	here for w+1       ────▶ joined-w+1-1              here for w+1
//
// The store creates the aggregate once, so that all peers apply the same updates, however
// many each of them saw. The outer step is exact, so that they have the same weights, to
// the bit. Peers need no clock and no connection to each other.
//
// A peer that comes late, or anew after a crash, applies the published rounds in order
// and goes on with the next. The first round waits for all peers, the others for those of
// the round before and those that announced themselves: a peer that is gone is waited for
// once. A peer that is stopped while it waits publishes nothing, so that the round stays
// open for the others. A peer that lies is held to package codec's checks and to the rule
// (package agg). The first aggregate of a window decides which peers count, so that only
// peers should have the right to write to the store.
//
// Updates and aggregates stay in the store as they are for as long as peers may join. A
// new run needs an empty store.
package outer
