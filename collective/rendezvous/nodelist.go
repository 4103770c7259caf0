package rendezvous

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what a short node list may stand for.
const maxHosts = 1 << 16

var errNodeList = errors.New("not a node list")

// ExpandNodeList gives the hosts that a list of Slurm's stands for, in its order:
// "a[01-03,7],b" is a01 a02 a03 a7 b. There may be several brackets in a name; ranges
// count up and keep the zeros of their first number. The source is "hostlist expressions"
// in scontrol(1), show hostnames.
func ExpandNodeList(list string) ([]string, error) {
	var out []string
	for rest := list; ; {
		item, more, err := nextItem(rest)
		if err != nil {
			return nil, err
		}
		names, err := expandItem(item)
		if err != nil {
			return nil, err
		}
		if len(out)+len(names) > maxHosts {
			return nil, fmt.Errorf("%w: more than %d hosts", errNodeList, maxHosts)
		}
		out = append(out, names...)
		if more == "" {
			return out, nil
		}
		rest = more[1:]
	}
}

// nextItem cuts at the first comma outside of brackets; more begins with it.
func nextItem(list string) (item, more string, err error) {
	inside := false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && inside, c == ']' && !inside:
			return "", "", fmt.Errorf("%w: %q at byte %d", errNodeList, c, i)
		case c == '[', c == ']':
			inside = !inside
		case c == ',' && !inside:
			return list[:i], list[i:], nil
		}
	}
	if inside {
		return "", "", fmt.Errorf("%w: %q has no end", errNodeList, list)
	}
	return list, "", nil
}

// expandItem expands the first bracket of a name and whatever follows it.
func expandItem(item string) ([]string, error) {
	if item == "" {
		return nil, fmt.Errorf("%w: an empty name", errNodeList)
	}
	head, rest, ok := strings.Cut(item, "[")
	if !ok {
		return []string{item}, nil
	}
	body, tail, _ := strings.Cut(rest, "]")
	tails := []string{""}
	if tail != "" {
		var err error
		if tails, err = expandItem(tail); err != nil {
			return nil, err
		}
	}
	var out []string
	for part := range strings.SplitSeq(body, ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		if !ranged {
			hi = lo
		}
		a, err := strconv.ParseUint(lo, 10, 32)
		b, err2 := strconv.ParseUint(hi, 10, 32)
		if err != nil || err2 != nil || b < a || len(lo) > 20 {
			return nil, fmt.Errorf("%w: %q, expected a number or a range of them", errNodeList, part)
		}
		if (b-a+1)*uint64(len(tails))+uint64(len(out)) > maxHosts {
			return nil, fmt.Errorf("%w: more than %d hosts", errNodeList, maxHosts)
		}
		for n := a; n <= b; n++ {
			for _, t := range tails {
				out = append(out, fmt.Sprintf("%s%0*d%s", head, len(lo), n, t))
			}
		}
	}
	return out, nil
}

// expandCounts reads tasks per node as Slurm writes them: "2(x3),1" is 2 2 2 1.
func expandCounts(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		count, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.Atoi(count)
		k := 1
		if repeated {
			var err2 error
			digits, ok := strings.CutSuffix(times, ")")
			if k, err2 = strconv.Atoi(digits); err2 != nil || !ok {
				err = errNodeList
			}
		}
		if err != nil || n < 0 || k < 1 || len(out)+k > maxHosts {
			return nil, fmt.Errorf("%q, expected counts such as 2(x3),1", part)
		}
		for range k {
			out = append(out, n)
		}
	}
	return out, nil
}
