package collective

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/net/nettest"
)

var (
	meddledCalls = flag.Int("meddled.calls", 0, "how many collectives TestMeddled makes; 0: few")
	meddledSeed  = flag.Uint64("meddled.seed", 0, "seed of TestMeddled; 0: the time")
)

// meddledVariable says that a child is a rank of TestMeddled: its seed and how many calls
// it makes.
const meddledVariable = "RINGSIDE_TEST_MEDDLED"

// meddledGroup is how many calls a group makes, at most.
const meddledGroup = 50

// TestMeddled has four ranks on two hosts make collectives, while a process in the link
// flips bits of packets, drops, repeats and delays them, and cuts connections. Each call
// is right, or an error on every rank that names one, and another group goes on.
func TestMeddled(t *testing.T) {
	seed := *meddledSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Log("seed", seed)
	all := *meddledCalls
	if all == 0 {
		all = 60
		if testsize.Sampled() {
			all = 20
		}
	}
	hosts, m := nettest.Meddled(t, os.Getenv, nettest.Odds{nettest.Flip: 20_000, nettest.Drop: 300, nettest.Repeat: 300, nettest.Delay: 300, nettest.Cut: 40_000}, seed)
	var right, failed, refused int
	var longest time.Duration
	for group := 0; right+failed < all; group++ {
		began := time.Now()
		calls := min(meddledGroup, all-right-failed)
		n, errs := meddledRound(t, hosts, group, calls, seed+uint64(group))
		right += n
		for _, err := range errs {
			if !namesPeer.MatchString(err) {
				t.Errorf("group %d: the error names no peer: %s", group, err)
			}
		}
		switch {
		case len(errs) == 0:
		case n == 0 && strings.Contains(errs[0], "group: "):
			if refused++; refused > 10+all {
				t.Fatalf("%d groups did not come to be, the last: %s", refused, errs[0])
			}
			longest = max(longest, time.Since(began))
		default:
			failed++
			longest = max(longest, time.Since(began))
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d collectives: %d right on all ranks, %d errors that name a peer, 0 wrong; %d groups did not come to be, with such an error; "+
		"the longest group that failed took %v; faults of the link: %v", right+failed, right, failed, refused, longest.Round(time.Millisecond), m.Done())
}

// namesPeer matches errors that say which rank or which address is at fault.
var namesPeer = regexp.MustCompile(`rank \d|10\.77\.0\.\d`)

// meddledRound makes a group and has it make calls. It returns how many were right on all
// ranks, and the errors of the ranks that had one.
func meddledRound(t *testing.T, hosts [2]*nettest.Host, group, calls int, seed uint64) (right int, errs []string) {
	t.Helper()
	right = calls
	for i, r := range hostRanks(t, hosts, 29500+group, fmt.Sprintf("%s=%d %d", meddledVariable, seed, calls)) {
		n, err := 0, ""
		for line := r.line(t); line != "end"; line = r.line(t) {
			what, rest, _ := strings.Cut(line, " ")
			switch what {
			case "right":
				n++
			case "error":
				err = rest
			default:
				t.Errorf("group %d, seed %d, rank %d: %s", group, seed, i, line)
			}
		}
		r.end()
		if n < calls && err == "" {
			t.Errorf("group %d, seed %d, rank %d: %d of %d calls, and no error", group, seed, i, n, calls)
		}
		right = min(right, n)
		if err != "" {
			errs = append(errs, err)
		}
	}
	if right < calls && len(errs) < len(hosts)*2 {
		t.Logf("group %d, seed %d: only %d ranks had an error, after %d calls", group, seed, len(errs), right)
	}
	return right, errs
}

// rankMeddled is a rank of TestMeddled. It says each right call, and an error.
func rankMeddled(spec string) error {
	var seed uint64
	var calls int
	if _, err := fmt.Sscan(spec, &seed, &calls); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	say := func(format string, args ...any) {
		fmt.Fprintln(out, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	}
	defer say("end")
	// less than the parent waits for a word
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	g, err := Init(ctx, nil)
	if err != nil {
		say("error group: %v", err)
		return nil
	}
	defer g.Close()
	for call := range calls {
		err := meddledCall(ctx, g, rand.New(rand.NewPCG(seed, uint64(call))))
		var e *Error
		switch {
		case errors.Is(err, errWrong):
			say("wrong call %d: %v", call, err)
			return nil
		case err != nil && !errors.As(err, &e):
			say("strange call %d: %v", call, err)
			return nil
		case err != nil:
			say("error %v", err)
			return nil
		}
		say("right")
	}
	return nil
}

var errWrong = errors.New("wrong result")

// meddledLanes is an all-to-all of n elements for each rank by sends and receives with
// tags, all under way at once: halves by two lanes of each pair of ranks.
func meddledLanes(ctx context.Context, g *Group, dst, src []int64, n int) error {
	var works []*Work
	for rank := range g.Size() {
		in, out := dst[rank*n:][:n], src[rank*n:][:n]
		for tag, half := range [2][2]int{{0, n / 2}, {n / 2, n}} {
			works = append(works, RecvTagAsync(ctx, g, in[half[0]:half[1]], rank, uint32(tag)),
				SendTagAsync(ctx, g, out[half[0]:half[1]], rank, uint32(tag)))
		}
	}
	var errs []error
	for _, w := range works {
		<-w.Done()
		errs = append(errs, w.Err())
	}
	return errors.Join(errs...)
}

// meddledCall makes a collective of integers, whose results every rank can compute, or
// moves them by lanes. All ranks have the same r.
func meddledCall(ctx context.Context, g *Group, r *rand.Rand) error {
	kind, size, me := r.IntN(6), g.Size(), g.Rank()
	n, salt, root := []int{1, 100, 10_000, 100_000}[r.IntN(4)], r.Int64(), r.IntN(size)
	from := func(rank, i int) int64 { return (salt ^ int64(rank+1)*0x9e3779b9) * int64(i+1) }
	sum := func(i int) (s int64) {
		for rank := range size {
			s += from(rank, i)
		}
		return s
	}
	src, dst := make([]int64, n*size), make([]int64, n*size)
	for i := range src {
		src[i] = from(me, i)
	}
	var err error
	want := func(i int) int64 { return from(i/n, i%n) }
	switch kind {
	case 0:
		err, want = AllReduce(ctx, g, dst, src, Sum), sum
	case 1:
		err, want = Broadcast(ctx, g, src, root), func(i int) int64 { return from(root, i) }
		dst = src
	case 2:
		err = AllGather(ctx, g, dst, src[:n])
	case 3:
		dst = dst[:n]
		err, want = ReduceScatter(ctx, g, dst, src, Sum), func(i int) int64 { return sum(me*n + i) }
	case 4:
		err, want = AllToAll(ctx, g, dst, src), func(i int) int64 { return from(i/n, me*n+i%n) }
	case 5:
		err, want = meddledLanes(ctx, g, dst, src, n), func(i int) int64 { return from(i/n, me*n+i%n) }
	}
	if err != nil {
		return err
	}
	for i, v := range dst {
		if v != want(i) {
			return fmt.Errorf("%w: kind %d of %d: element %d is %d, expected %d", errWrong, kind, n, i, v, want(i))
		}
	}
	return nil
}
