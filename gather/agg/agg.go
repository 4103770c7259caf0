// Package agg has the rules by which the updates of many peers become one. A rule is of
// one of two kinds:
//
//	weights  each peer has a factor, and the update is the sum of factor · value over the
//	         number of peers that sent the position, over that of all, or over nothing
//	votes    each position is decided by itself from the values that were sent for it
//
// Rules that look at distances between peers (krum, multi-krum, geometric-median,
// centered-clip) are of the first kind: their answer is a combination of the updates, and
// its factors follow from the inner products of all pairs alone.
//
// A position that a peer did not send is a zero for distances and no vote for votes.
// One with fewer than 3 votes gets no update. Where few honest peers send a position,
// liars that agree can still decide it by votes; rules of distances look at whole
// updates.
//
// Sources: Blanchard et al. 2017 (Krum), Yin et al. 2018 (median, trimmed mean),
// Karimireddy et al. 2021 (centered clipping), Pillutla et al. 2022 (geometric median
// by Weiszfeld).
package agg

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrRule is returned for a rule that there is none of.
var ErrRule = errors.New("agg: no such rule")

// Default is the rule of the known implementation: norms above the lower median are
// scaled down to it, and positions are means over those that sent them.
const Default = "clip-mean"

// Rule combines updates.
type Rule struct {
	Name string

	// Clip scales each parameter of a peer down to the lower median of the norms.
	Clip bool

	// Factors returns each peer's factor from the inner products of all pairs; nil for 1.
	Factors func(gram [][]float64) []float64

	// Sum takes the sum of the weighted values as it is, for factors that sum to 1.
	Sum bool

	// All takes the mean over all peers: one that did not send a position has a zero
	// there. Otherwise it is the mean over those that sent it.
	All bool

	// Vote returns the value of a position from the values sent, which are ascending;
	// nil for rules of weights.
	Vote func(values []float32) float32
}

// Mean reports whether the rule is a mean, in which peers may have weights.
func (r *Rule) Mean() bool { return r.Factors == nil && r.Vote == nil }

// Names lists the rules.
func Names() []string {
	return []string{"clip-mean", "clip-mean-peers", "mean", "median", "trimmed", "centered-clip", "geometric-median", "krum", "multi-krum"}
}

// Find returns the rule of a name. A fraction may follow a colon, as in trimmed:0.2: the
// part of the peers that may lie, 0.25 where none is given.
func Find(name string) (*Rule, error) {
	base, arg, given := strings.Cut(name, ":")
	part := 0.25
	if given {
		var err error
		if part, err = strconv.ParseFloat(arg, 64); err != nil || !(part > 0 && part < 0.5) {
			return nil, fmt.Errorf("%w: %q: expected a fraction above 0 and below 0.5 behind the colon", ErrRule, name)
		}
	}
	r := &Rule{Name: name}
	switch base {
	case "", Default:
		r.Name, r.Clip = Default, true
	case "mean":
	case "clip-mean-peers":
		r.Clip, r.All = true, true
	case "median":
		r.Vote = median
	case "trimmed":
		r.Vote = func(v []float32) float32 { return trimmed(v, part) }
	case "centered-clip":
		r.Sum, r.Factors = true, centeredClip
	case "geometric-median":
		r.Sum, r.Factors = true, geometricMedian
	case "krum":
		r.Factors = func(g [][]float64) []float64 { return krum(g, part, 1) }
	case "multi-krum":
		r.Factors = func(g [][]float64) []float64 { return krum(g, part, len(g)-int(part*float64(len(g)))) }
	default:
		return nil, fmt.Errorf("%w: %q, expected one of %s", ErrRule, name, strings.Join(Names(), ", "))
	}
	return r, nil
}

// Lower returns the lower median of norms.
func Lower(norms []float64) float64 {
	s := slices.Sorted(slices.Values(norms))
	return s[(len(s)-1)/2]
}

// ClipFactor returns the factor of a norm that is clipped: at most 1, and 1e-8 keeps a
// norm of zero from a division by it.
func ClipFactor(clip, norm float64) float64 { return min(1, clip/(norm+1e-8)) }

// minVotes is the fewest votes that can be told from a lie.
const minVotes = 3

func median(v []float32) float32 {
	n := len(v)
	if n < minVotes {
		return 0
	}
	if n%2 == 1 {
		return v[n/2]
	}
	return float32((float64(v[n/2-1]) + float64(v[n/2])) / 2)
}

// trimmed is the mean without the part of the values at either end.
func trimmed(v []float32, part float64) float32 {
	if len(v) < minVotes {
		return 0
	}
	cut := min(int(math.Ceil(part*float64(len(v)))), (len(v)-1)/2)
	var s float64
	for _, x := range v[cut : len(v)-cut] {
		s += float64(x)
	}
	return float32(s / float64(len(v)-2*cut))
}

// distance returns the squared distance of peer u from the combination a of all peers.
func distance(gram [][]float64, a []float64, u int) float64 {
	d := gram[u][u]
	for i, x := range a {
		d -= 2 * x * gram[u][i]
		for j, y := range a {
			d += x * y * gram[i][j]
		}
	}
	return max(d, 0)
}

const (
	clipRounds = 10
	medRounds  = 50
)

// centeredClip moves a centre from zero towards the peers; each pulls with at most the
// lower median of their distances.
func centeredClip(gram [][]float64) []float64 {
	n := len(gram)
	a, d := make([]float64, n), make([]float64, n)
	for range clipRounds {
		for u := range d {
			d[u] = math.Sqrt(distance(gram, a, u))
		}
		reach, stay := Lower(d), 1.0
		pull := make([]float64, n)
		for u := range pull {
			pull[u] = 1 / float64(n)
			if d[u] > reach {
				pull[u] *= reach / d[u]
			}
			stay -= pull[u]
		}
		for u := range a {
			a[u] = stay*a[u] + pull[u]
		}
	}
	return a
}

// geometricMedian is Weiszfeld's iteration from the mean of the updates, each scaled down
// to the lower median of their norms: a round shortens the way from a liar by a factor
// alone, so that a start near an update of 1e38 is too far for all rounds.
func geometricMedian(gram [][]float64) []float64 {
	n := len(gram)
	a, norms := make([]float64, n), make([]float64, n)
	for u := range norms {
		norms[u] = math.Sqrt(max(gram[u][u], 0))
	}
	reach := Lower(norms)
	for u := range a {
		a[u] = ClipFactor(reach, norms[u]) / float64(n)
	}
	for range medRounds {
		next, sum := make([]float64, n), 0.0
		for u := range next {
			next[u] = 1 / max(math.Sqrt(distance(gram, a, u)), 1e-12)
			sum += next[u]
		}
		for u := range next {
			a[u] = next[u] / sum
		}
	}
	return a
}

// krum gives 1 to the m peers whose nearest others are nearest, and 0 to the rest. As
// many others count as there are honest ones at least, without two.
func krum(gram [][]float64, part float64, m int) []float64 {
	n := len(gram)
	near := max(n-int(part*float64(n))-2, 1)
	type scored struct {
		score float64
		peer  int
	}
	all := make([]scored, n)
	for u := range all {
		var d []float64
		for v := range gram {
			if v != u {
				d = append(d, gram[u][u]+gram[v][v]-2*gram[u][v])
			}
		}
		slices.Sort(d)
		all[u].peer = u
		for _, x := range d[:min(near, len(d))] {
			all[u].score += x
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return a.peer - b.peer
	})
	f := make([]float64, n)
	for _, s := range all[:min(max(m, 1), n)] {
		f[s.peer] = 1
	}
	return f
}
