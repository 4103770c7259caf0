package collective

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
)

// Objects are encoded by encoding/gob: exported fields of structs, and types that
// implement its interfaces or encoding.BinaryMarshaler. Values in interfaces must have
// been registered with gob.Register. Object calls are for small values: each is encoded,
// sent and decoded as a whole, in two calls of the group (lengths, then encodings), and
// an encoding may have Options.MaxObject bytes. When one rank's object cannot be encoded
// or is too large, every rank's call returns ErrObject and the group works on.

// box lets gob carry nil and zero values, which it does not take at the top.
type box[T any] struct{ V T }

const refused = math.MinInt64 // the length of an object that cannot be encoded

// encode returns v's encoding and its length, refused, or the negative length of one that
// is too large.
func encode[T any](g *Group, v T) (body []byte, n int64, err error) {
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(box[T]{v}); err != nil {
		return nil, refused, err
	}
	if buf.Len() > g.options.MaxObject {
		return nil, -int64(buf.Len()), nil
	}
	return buf.Bytes(), int64(buf.Len()), nil
}

// decode returns the object of a rank.
func decode[T any](rank int, body []byte) (T, error) {
	var b box[T]
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&b); err != nil {
		return b.V, fmt.Errorf("%w: of rank %d, as %T: %w", ErrObject, rank, b.V, err)
	}
	return b.V, nil
}

// objections returns the lengths that ranks announced, those of their own objects or, if
// it is not negative, of root's; and the errors for those that are refused.
func objections(g *Group, lengths []int64, root int, own error) ([]int, error) {
	counts := make([]int, len(lengths))
	var errs []error
	for r, n := range lengths {
		counts[r] = int(n)
		if root >= 0 {
			r = root
		}
		switch {
		case root >= 0 && len(errs) > 0: // all of them are the root's: one says it
		case n == refused && r == g.rank:
			errs = append(errs, fmt.Errorf("%w: %w", ErrObject, own))
		case n == refused:
			errs = append(errs, fmt.Errorf("%w: rank %d could not encode its own", ErrObject, r))
		case n < 0 || n > int64(g.options.MaxObject):
			errs = append(errs, fmt.Errorf("%w: of rank %d has %d bytes, the limit is %d", ErrObject, r, max(n, -n), g.options.MaxObject))
		}
	}
	return counts, errors.Join(errs...)
}

// BroadcastObject stores the root's v in every rank's v.
func BroadcastObject[T any](ctx context.Context, g *Group, v *T, root int) error {
	if err := g.has(root, "root"); err != nil {
		return err
	}
	var body []byte
	var n [1]int64
	var own error
	if g.rank == root {
		body, n[0], own = encode(g, *v)
	}
	if err := Broadcast(ctx, g, n[:], root); err != nil {
		return err
	}
	counts, err := objections(g, n[:], root, own)
	if err != nil {
		return err
	}
	if g.rank != root {
		body = make([]byte, counts[0])
	}
	if err := Broadcast(ctx, g, body, root); err != nil || g.rank == root {
		return err
	}
	got, err := decode[T](root, body)
	if err == nil {
		*v = got
	}
	return err
}

// AllGatherObject returns the v of all, by rank.
func AllGatherObject[T any](ctx context.Context, g *Group, v T) ([]T, error) {
	body, counts, err := objectLengths(ctx, g, v)
	if err != nil {
		return nil, err
	}
	all := make([]byte, sum(counts))
	if err := AllGatherV(ctx, g, all, body, counts); err != nil {
		return nil, err
	}
	return decodeAll[T](all, counts)
}

// GatherObject returns the v of all, by rank, on root, and nil on the others.
func GatherObject[T any](ctx context.Context, g *Group, v T, root int) ([]T, error) {
	if err := g.has(root, "root"); err != nil {
		return nil, err
	}
	body, counts, err := objectLengths(ctx, g, v)
	if err != nil {
		return nil, err
	}
	var all []byte
	if g.rank == root {
		all = make([]byte, sum(counts))
	}
	if err := GatherV(ctx, g, all, body, counts, root); err != nil || g.rank != root {
		return nil, err
	}
	return decodeAll[T](all, counts)
}

// objectLengths encodes v and exchanges the lengths of all ranks' objects.
func objectLengths[T any](ctx context.Context, g *Group, v T) (body []byte, counts []int, err error) {
	body, n, own := encode(g, v)
	lengths := make([]int64, g.size)
	if err := AllGather(ctx, g, lengths, []int64{n}); err != nil {
		return nil, nil, err
	}
	counts, err = objections(g, lengths, -1, own)
	return body, counts, err
}

// decodeAll returns the objects of all ranks, whose encodings lie one after the other.
func decodeAll[T any](all []byte, counts []int) ([]T, error) {
	out := make([]T, len(counts))
	for r, n := range counts {
		var err error
		if out[r], err = decode[T](r, all[:n]); err != nil {
			return nil, err
		}
		all = all[n:]
	}
	return out, nil
}

// ScatterObject returns root's vs[r] on rank r. The others' vs is not used.
func ScatterObject[T any](ctx context.Context, g *Group, vs []T, root int) (T, error) {
	var none T
	if err := g.has(root, "root"); err != nil {
		return none, err
	}
	lengths := make([]int64, g.size)
	var all []byte
	var own error
	if g.rank == root {
		if len(vs) != g.size {
			return none, fmt.Errorf("%w: %d objects for %d ranks", ErrLength, len(vs), g.size)
		}
		for r, v := range vs {
			body, n, err := encode(g, v)
			all, lengths[r] = append(all, body...), n
			if err != nil {
				own = err
			}
		}
	}
	if err := Broadcast(ctx, g, lengths, root); err != nil {
		return none, err
	}
	counts, err := objections(g, lengths, root, own)
	if err != nil {
		return none, err
	}
	mine := make([]byte, counts[g.rank])
	if err := ScatterV(ctx, g, mine, all, counts, root); err != nil {
		return none, err
	}
	return decode[T](root, mine)
}

// ReduceObject folds the v of all by f, from the left in rank order, on root: f(f(v0,
// v1), v2). The others get the zero T. Only root gets an error of f.
func ReduceObject[T any](ctx context.Context, g *Group, v T, root int, f func(acc, next T) (T, error)) (T, error) {
	var none T
	all, err := GatherObject(ctx, g, v, root)
	if err != nil || g.rank != root {
		return none, err
	}
	return foldObjects(all, f)
}

// AllReduceObject is ReduceObject on every rank: f runs on each, on the same values in
// the same order.
func AllReduceObject[T any](ctx context.Context, g *Group, v T, f func(acc, next T) (T, error)) (T, error) {
	all, err := AllGatherObject(ctx, g, v)
	if err != nil {
		var none T
		return none, err
	}
	return foldObjects(all, f)
}

// foldObjects folds from the left.
func foldObjects[T any](all []T, f func(acc, next T) (T, error)) (T, error) {
	acc := all[0]
	for r, v := range all[1:] {
		var err error
		if acc, err = f(acc, v); err != nil {
			return acc, fmt.Errorf("collective: object of rank %d: %w", r+1, err)
		}
	}
	return acc, nil
}
