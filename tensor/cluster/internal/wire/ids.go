package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// A list of ids is encoded as the changes since the last list of the same program. In a
// training loop there are few: the run before made the parameters at the same places (so
// each is the last id plus the distance of the two bases), and constants are the same.
// The list is a sequence of tokens, each a uvarint of count<<2 | mode:
//
//	0 same      the next count ids are those of the last list, at the same places
//	1 shifted   they are those of the last list plus base - lastBase
//	2 explicit  count zigzag varints follow, each id - base
//
// Arithmetic is modulo 2^64: any ids can be encoded.
const (
	modeSame     = 0
	modeShifted  = 1
	modeExplicit = 2
)

// idToken returns the token for ids[i:]: the longer of a run of same and a run of shifted
// ids, else explicit ids up to the next id that is same or shifted.
func idToken(last, ids []uint64, shift uint64, i int) (mode uint64, n int) {
	same, shifted := i, i
	for same < len(ids) && same < len(last) && ids[same] == last[same] {
		same++
	}
	for shifted < len(ids) && shifted < len(last) && ids[shifted] == last[shifted]+shift {
		shifted++
	}
	switch {
	case same > i && same >= shifted:
		return modeSame, same - i
	case shifted > i:
		return modeShifted, shifted - i
	}
	for i++; i < len(ids); i++ {
		if i < len(last) && (ids[i] == last[i] || ids[i] == last[i]+shift) {
			break
		}
		n++
	}
	return modeExplicit, n + 1
}

// walkIDs visits the tokens of ids. last is the list before this one and lastBase the
// base that it was sent with; both are empty when there was none. A parser has given ids
// its length, which must have been checked against a limit: predicted ids have no bytes.
func walkIDs(w *encoding.Walk, field string, lastBase uint64, last []uint64, base uint64, ids []uint64) {
	shift := base - lastBase
	for i := 0; i < len(ids); {
		var token uint64
		if !w.Parses() {
			mode, n := idToken(last, ids, shift, i)
			token = uint64(n)<<2 | mode
		}
		w.Uvarint(field, &token)
		mode, count := token&3, token>>2
		switch {
		case w.Err() != nil:
			return
		case count == 0 || count > uint64(len(ids)-i):
			w.Fail(field, "id %d of %d: token for %d ids", i, len(ids), count)
			return
		case mode > modeExplicit:
			w.Fail(field, "id %d of %d: token of mode %d", i, len(ids), mode)
			return
		}
		end := i + int(count)
		switch {
		case mode == modeExplicit:
			for j := i; j < end; j++ {
				w.Delta(field, &ids[j], base)
			}
		case end > len(last):
			w.Fail(field, "ids %d to %d predicted from a list of %d", i, end, len(last))
			return
		case w.Parses():
			predict(ids[i:end], last[i:end], mode, shift)
		}
		i = end
	}
}

// predict sets ids to those of last, shifted where mode says so.
func predict(ids, last []uint64, mode, shift uint64) {
	if mode == modeSame {
		shift = 0
	}
	for i := range ids {
		ids[i] = last[i] + shift
	}
}
