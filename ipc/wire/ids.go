package wire

import (
	"encoding/binary"
	"fmt"
)

// A list of ids is coded as what changed since the last list of the same program. In a
// training loop that is next to nothing: parameters were made by the run before (same place
// in it, so the last id plus the distance of the two bases), constants are the same. The list is
// a sequence of tokens, each a uvarint of count<<2 | mode:
//
//	0 same      the next count ids are those of last time, at the same places
//	1 shifted   they are those of last time plus base - lastBase
//	2 explicit  count zigzag varints follow, each id - base
//
// Arithmetic is modulo 2^64: any ids can be coded.
const (
	modeSame     = 0
	modeShifted  = 1
	modeExplicit = 2
)

// idToken finds the token that begins at ids[i]: the longer of a run of same and a run of
// shifted ids, else explicit ids up to where one of the two begins again.
func idToken(last, ids []uint64, shift uint64, i int) (mode, n int) {
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

// AppendIDs appends the tokens for ids to dst. last is the list before this one and
// lastBase the base it was sent with; both empty when there was none.
func AppendIDs(dst []byte, lastBase uint64, last []uint64, base uint64, ids []uint64) []byte {
	for i := 0; i < len(ids); {
		mode, n := idToken(last, ids, base-lastBase, i)
		dst = appendUint(dst, uint64(n)<<2|uint64(mode))
		if mode == modeExplicit {
			for _, id := range ids[i : i+n] {
				dst = appendUint(dst, zigzag(int64(id-base)))
			}
		}
		i += n
	}
	return dst
}

// SizeIDs is the number of bytes AppendIDs writes.
func SizeIDs(lastBase uint64, last []uint64, base uint64, ids []uint64) int {
	size := 0
	for i := 0; i < len(ids); {
		mode, n := idToken(last, ids, base-lastBase, i)
		size += sizeUint(uint64(n)<<2 | uint64(mode))
		if mode == modeExplicit {
			for _, id := range ids[i : i+n] {
				size += sizeUint(zigzag(int64(id - base)))
			}
		}
		i += n
	}
	return size
}

// ParseIDs reads n ids into dst[:0], growing it where needed, and returns them with what is
// left of src. n must have been checked against a limit: predicted ids take no bytes of src. last
// and lastBase are what AppendIDs was given.
func ParseIDs(src []byte, lastBase uint64, last []uint64, base uint64, n int, dst []uint64) (ids []uint64, rest []byte, err error) {
	dst = resize(dst, n)
	shift := base - lastBase
	for i := 0; i < n; {
		token, k := binary.Uvarint(src)
		if k <= 0 {
			return nil, nil, fmt.Errorf("%w: id %d of %d: token is not a varint", ErrMalformed, i, n)
		}
		src = src[k:]
		mode, count := token&3, token>>2
		if count == 0 || count > uint64(n-i) {
			return nil, nil, fmt.Errorf("%w: id %d of %d: token for %d ids", ErrMalformed, i, n, count)
		}
		end := i + int(count)
		switch mode {
		case modeSame, modeShifted:
			if end > len(last) {
				return nil, nil, fmt.Errorf("%w: ids %d to %d predicted from a list of %d", ErrMalformed, i, end, len(last))
			}
			add := shift
			if mode == modeSame {
				add = 0
			}
			for ; i < end; i++ {
				dst[i] = last[i] + add
			}
		case modeExplicit:
			for ; i < end; i++ {
				v, k := binary.Uvarint(src)
				if k <= 0 {
					return nil, nil, fmt.Errorf("%w: id %d of %d is not a varint", ErrMalformed, i, n)
				}
				src = src[k:]
				dst[i] = base + uint64(unzigzag(v))
			}
		default:
			return nil, nil, fmt.Errorf("%w: id %d of %d: token of mode %d", ErrMalformed, i, n, mode)
		}
	}
	return dst, src, nil
}
