// Package apply updates a model by what was gathered, under a memory budget.
//
//	update.go            the outer update: factors, tiles, what a rank owns
//	fixed.go votes.go    accumulation in fixed point; rules that vote
//	gram.go              inner products of all pairs of peers
//	optimizer.go         SGD, Nesterov, sign
//	weights.go file.go   models in memory and in safetensors files
//	journal.go           each window is applied once, whatever dies
//
// # Exact accumulation
//
// For each parameter every peer has a factor f, so that f·norm is at most a bound the
// peers' norms decide. With 2^E the power of two at or above the bound, and F = 61 -
// the bits of the number of peers, a value v of a codebook becomes the integer
//
//	round(f · v · 2^(F-E))      at most 2^F in magnitude
//
// and a position's sum fits an int64. Integer addition is associative: the update does
// not depend on the order of peers, tiles, ranks or threads. It is S·2^(E-F)/N in
// float64, rounded once to float32, where N peers sent the position.
//
// # Memory
//
//	         TotalK
//	      ┌──────────┐ ─┐
//	tile  │ S  int64 │  │ rows that fit the budget: 14 bytes a coefficient,
//	      │ N uint16 │  │ and one peer's encoded rows
//	      │ out  f32 │  │
//	      └──────────┘ ─┘
//
// A tile is at most 4 MiB whatever the budget: it stays in a cache. Peers are read one
// after the other and add nothing. A budget in which one row does not fit is ErrBudget.
//
// # Crashes
//
// The new model is written beside the old one, which stays whole until the new one is
// renamed over it. The journal says which parameters the new file already has:
//
//	| phase  | model | beside it                   | after a crash            |
//	| update | old   | new, params below next done | goes on at next          |
//	| commit | old or new | new, complete          | renames                  |
//	| done   | new   | nothing                     | window ≤ journal: refused |
//
// A bound beyond float32 skips its parameter, on all ranks: they all know the norms.
package apply
