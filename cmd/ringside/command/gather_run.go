package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/artifact"
	gatheroutcome "github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/overlap"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/shm/plain"
)

func newGatherPlan() *cobra.Command {
	var manifest, out, peers, reserves, weights, tMin, tMax string
	var p gather.Plan
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan",
		Short: "write what is to be gathered in a window",
		Long: `Plan writes which peers' updates a window has and how they become one.

The rules of --aggregate: clip-mean scales updates down to the median of their norms and takes the mean of each position over
the peers that sent it, clip-mean-peers over all; mean does not scale. They trust all peers. Against peers that lie, median and
trimmed let the values of each position vote; centered-clip, geometric-median, krum and multi-krum look at the distances of
whole updates. trimmed, krum and multi-krum take the part of the peers that may lie, as trimmed:0.2 (0.25 where none is given).`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := given(cmd, "window"); err != nil {
				return err
			}
			m, err := readManifest(manifest)
			if err != nil {
				return err
			}
			p.Manifest = m.Digest()
			if p.Intended, err = uidList("peers", peers); err != nil {
				return err
			}
			if len(p.Intended) == 0 {
				return usagef("--peers: expected the numbers of the peers, as 1,2,5-9")
			}
			if p.Reserves, err = uidList("reserves", reserves); err != nil {
				return err
			}
			for flag, at := range map[string]struct {
				text string
				to   *int64
			}{"after": {tMin, &p.TMin}, "before": {tMax, &p.TMax}} {
				if at.text == "" {
					continue
				}
				t, err := time.Parse(time.RFC3339, at.text)
				if err != nil {
					return usagef("--%s %s: expected a time as 2026-01-31T12:00:00Z", flag, at.text)
				}
				*at.to = t.Unix()
			}
			rule, err := agg.Find(p.Policy.Aggregator)
			if err != nil {
				return usagef("--aggregate: %v", err)
			}
			if p.Weights, err = weightList(weights); err != nil {
				return err
			}
			if len(p.Weights) > 0 && !rule.Mean() {
				return usagef("--weights and --aggregate %s exclude each other: a mean takes weights", p.Policy.Aggregator)
			}
			for uid := range p.Weights {
				if !slices.Contains(p.Intended, uid) && !slices.Contains(p.Reserves, uid) {
					return usagef("--weights %d=%v: expected a peer of --peers or --reserves", uid, p.Weights[uid])
				}
			}
			if err := p.Normalize(); err != nil {
				return err
			}
			if p.Policy.MinPeers > len(p.Intended) {
				return usagef("--min-peers %d: expected at most %d, the number of --peers: a reserve only replaces one of them", p.Policy.MinPeers, len(p.Intended))
			}
			if err := writeJSON(out, &p); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(&p)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: window %d, %d peers, %d reserves, %d duplicates removed\n", out, p.Window, len(p.Intended), len(p.Reserves), p.Removed)
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&manifest, "manifest", "manifest.json", "what updates look like, from gather init")
	flags.StringVar(&out, "plan", "plan.json", "file to write")
	flags.Uint64Var(&p.Window, "window", 0, "number of the window")
	flags.StringVar(&peers, "peers", "", "numbers of the peers, as 1,2,5-9")
	flags.StringVar(&reserves, "reserves", "", "numbers of those that replace peers which fail, in order")
	flags.StringVar(&weights, "weights", "", "what some peers' updates are multiplied by, from 0 to 1, as 3=0.5,7=0 (default: 1)")
	flags.StringVar(&tMin, "after", "", "earliest upload, as 2026-01-31T12:00:00Z")
	flags.StringVar(&tMax, "before", "", "latest upload")
	flags.IntVar(&p.Policy.ReserveRounds, "rounds", 3, "how often failed peers are replaced")
	flags.IntVar(&p.Policy.MinPeers, "min-peers", 1, "fewest peers that make an update; with fewer the window is skipped")
	flags.Float64Var(&p.Policy.NormLimit, "norm-limit", 0, "largest L2 norm of a parameter of a peer (default: no bound)")
	flags.Float64Var(&p.Policy.ClipFloor, "clip-floor", 0, "least norm that clip-mean scales peers down to")
	flags.StringVar(&p.Policy.Aggregator, "aggregate", agg.Default, "rule by which updates become one: "+strings.Join(agg.Names(), ", "))
	flags.DurationVar(&p.Timeout, "timeout", time.Minute, "time for each round of requests")
	flags.BoolVar(&asJSON, "json", false, "print the plan")
	return c
}

// readPlan reads what plan wrote, which may have been changed by hand. A window is not
// published under a rule by which it cannot be applied.
func readPlan(path string) (*gather.Plan, error) {
	p := &gather.Plan{}
	if err := readJSON(path, p); err != nil {
		return nil, err
	}
	rule, err := agg.Find(p.Policy.Aggregator)
	if err == nil && len(p.Weights) > 0 && !rule.Mean() {
		err = fmt.Errorf("%w: %s takes no weights of peers, expected one of clip-mean, clip-mean-peers and mean", agg.ErrRule, rule.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// applyFlags say how a result is applied.
type applyFlags struct {
	model      string
	replicated bool
	budget     int64
	o          apply.Optimizer
}

func (f *applyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.model, "model", "", "safetensors file of the model that is updated; it is replaced when it is complete")
	flags.BoolVar(&f.replicated, "replicated", false, "every rank has a model of its own, as ranks of several hosts do")
	flags.Int64Var(&f.budget, "budget-mib", 64, "memory of the update in MiB")
	flags.Float64Var(&f.o.LR, "lr", 1, "learning rate; whichever process applies the window needs the same, and the same --momentum, --nesterov and --sign")
	flags.Float64Var(&f.o.Momentum, "momentum", 0, "momentum, kept beside the model")
	flags.BoolVar(&f.o.Nesterov, "nesterov", false, "look ahead along the momentum")
	flags.BoolVar(&f.o.Sign, "sign", false, "take only the signs of the update")
}

// apply applies a result to the model, if there is one.
func (f *applyFlags) apply(ctx context.Context, s *session, r *gather.Result) (*apply.Stats, error) {
	if f.model == "" || r.Skip {
		return nil, nil
	}
	return apply.File(ctx, s.g.Ranks, r, s.m, f.model, &apply.Options{Budget: f.budget << 20, Optimizer: f.o, Replicated: f.replicated})
}

// runFlags are those of run.
type runFlags struct {
	rankFlags
	applyFlags
	plan, publish string
	full, overlap bool
}

func newGatherRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "gather a window: fetch, check, agree, publish and apply",
		Long: `Run fetches the updates of a plan, checks them and has all ranks agree on the result. A peer whose update is missing or wrong
is skipped, and the table says why. The result is then published (--publish) and applied to a model (--model), if these are
given; without them nothing is written. A model has each window once: model.safetensors.journal beside it says which was the
last, and a run that was killed goes on where it stopped. Where the window is published already, gather apply does the rest.

Four ranks share the work:

    ringside run -n 4 -- ringside gather run --store DIR \
        --model model.safetensors`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.rankFlags.add(c.Flags())
	f.applyFlags.add(c.Flags())
	c.Flags().StringVar(&f.plan, "plan", "plan.json", "what is gathered, from gather plan; rank 0's counts")
	c.Flags().StringVar(&f.publish, "publish", "", "store for the aggregate")
	c.Flags().BoolVar(&f.full, "full", false, "publish the payloads too, so that the aggregate can be applied without the peers' stores")
	c.Flags().BoolVar(&f.overlap, "overlap", true, "compare the positions that peers sent")
	return c
}

// summary is what run and apply print.
type summary struct {
	*gather.Result
	Details map[uint64]string `json:"details"`
	Time    float64           `json:"time"`
	Wire    int64             `json:"wire_bytes"`
	Overlap *overlap.Report   `json:"overlap,omitempty"`
	Applied *apply.Stats      `json:"applied,omitempty"`
	Ranks   int               `json:"ranks"`
}

func (f *runFlags) run(cmd *cobra.Command) error {
	source, err := f.peers()
	if err != nil {
		return err
	}
	var publish store.Store
	if f.publish != "" {
		if publish, err = f.open(f.publish); err != nil {
			return err
		}
	}
	s, err := f.start(cmd, source)
	if err != nil {
		return err
	}
	defer s.clean()
	var plan *gather.Plan
	if s.g.Rank() == 0 {
		plan, err = readPlan(f.plan)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--plan: %w; gather plan writes it", err)
		}
		if err != nil {
			return err
		}
		if err := f.waits(plan, s.g.Size()); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	r, err := s.g.Gather(ctx, plan)
	if err != nil {
		return err
	}
	defer r.Close()
	out := &summary{Result: r, Details: r.Details, Time: r.Time, Wire: r.Wire, Ranks: s.g.Size()}
	if f.overlap && !r.Skip {
		if out.Overlap, err = overlap.Check(ctx, s.g.Ranks, r, s.m, nil); err != nil {
			return err
		}
	}
	if publish != nil && !r.Skip {
		if err := f.publishTo(ctx, s, publish, r, out.Overlap, logger(cmd)); err != nil {
			return f.published(ctx, publish, r.Window, err)
		}
	}
	if out.Applied, err = f.apply(ctx, s, r); err != nil {
		return err
	}
	return out.print(s, f.rankFlags.json)
}

// published adds to store.ErrExists how to go on.
func (f *runFlags) published(ctx context.Context, to store.Store, window uint64, err error) error {
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	if _, load := artifact.Load(ctx, to, window); gatheroutcome.Of(load) == gatheroutcome.NotFound {
		return fmt.Errorf("%w: its payloads are published and its result is not; unless another run is at it, remove %s and run again", err, artifact.FullName(window))
	}
	return fmt.Errorf("%w: window %d is published already: gather apply --window %d applies it to a model", err, window, window)
}

// publishTo publishes a result, unless it is published: a process that is killed before
// it has applied a window is started again as it was.
func (f *runFlags) publishTo(ctx context.Context, s *session, to store.Store, r *gather.Result, rep *overlap.Report, log *slog.Logger) error {
	there := []byte{0}
	if s.g.Rank() == 0 {
		if a, err := artifact.Load(ctx, to, r.Window); err == nil && a.Digest == r.Digest() {
			log.Warn("the window is published, with this result; nothing is published again", "window", r.Window)
			there[0] = 1
		}
	}
	there, err := s.g.Broadcast(ctx, there)
	if err != nil || there[0] != 0 {
		return err
	}
	if f.full {
		u, ok := to.(store.Uploader)
		if !ok {
			return fmt.Errorf("%w: --full needs a store that takes uploads in parts: a folder or S3", store.ErrUnsupported)
		}
		if err := artifact.EmitFull(ctx, s.g.Ranks, u, r); err != nil {
			return err
		}
	}
	var b []byte
	if rep != nil {
		var err error
		if b, err = rep.JSON(); err != nil {
			return err
		}
	}
	return artifact.Emit(ctx, s.g.Ranks, to, r, b)
}

// print writes a summary, and returns the error of a window that is skipped.
func (o *summary) print(s *session, asJSON bool) error {
	o.Close()
	s.clean()
	var err error
	if asJSON {
		err = json.NewEncoder(s.out).Encode(o)
	} else {
		err = o.table(s)
	}
	if o.Skip && s.g.Rank() != 0 { // rank 0 says it
		return &exitError{errSilent, 2}
	}
	if o.Skip {
		return errSkipped(o.Result)
	}
	return err
}

func (o *summary) table(s *session) error {
	tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "peer\tstatus\tstep\tbytes\tnorm\tdetail")
	for i := range o.Peers {
		p := &o.Peers[i]
		norm := 0.0
		for _, x := range p.Norms {
			norm = math.Hypot(norm, x)
		}
		level := ""
		if o.Overlap != nil && o.Overlap.Levels[p.UID] != overlap.None {
			level = "overlap " + o.Overlap.Levels[p.UID].String()
		}
		fmt.Fprintf(tw, "%d\tOK\t%d\t%d\t%.4g\t%s\n", p.UID, p.Step, p.Size, norm, level)
	}
	for _, uid := range o.Skipped {
		fmt.Fprintf(tw, "%d\t%v\t\t\t\t%s\n", uid, o.Reasons[uid], o.Details[uid])
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "window %d: %d of %d peers, %d reserves, %s in %.2f s on %s\n", o.Window, len(o.UIDs), len(o.Intended), o.ReserveUsed, inMiB(o.Wire), o.Time, plain.Count(o.Ranks, "rank"))
	if o.Applied != nil && err == nil {
		_, err = fmt.Fprintf(s.out, "applied, %d values by rank 0\n", o.Applied.Values)
	}
	return err
}

// againFlags are of the commands that gather a published window once more.
type againFlags struct {
	rankFlags
	aggregate string
	window    uint64
}

func (f *againFlags) add(flags *pflag.FlagSet) {
	f.rankFlags.add(flags)
	flags.StringVar(&f.aggregate, "aggregate", "", "store that has the aggregate, as of gather run --publish")
	flags.Uint64Var(&f.window, "window", 0, "number of the window")
}

// again fetches the accepted peers of an aggregate, checks that they are what was
// published, and calls do with them. They come from --store, or from the published
// payloads where no --store is given.
func (f *againFlags) again(cmd *cobra.Command, do func(s *session, a *artifact.Aggregate, r *gather.Result) error) error {
	if err := given(cmd, "window"); err != nil {
		return err
	}
	if f.aggregate == "" {
		return usagef("--aggregate: expected the store that gather run --publish was given")
	}
	from, err := f.open(f.aggregate)
	if err != nil {
		return err
	}
	a, err := artifact.Load(cmd.Context(), from, f.window)
	if gatheroutcome.Of(err) == gatheroutcome.NotFound {
		err = fmt.Errorf("the store of --aggregate has no window %d, which gather run --publish puts there: %w", f.window, err)
	}
	if err != nil {
		return err
	}
	source := a.Source(from)
	if f.url != "" {
		if source, err = f.peers(); err != nil {
			return err
		}
	}
	s, err := f.start(cmd, source)
	if err != nil {
		return err
	}
	defer s.clean()
	r, err := s.g.Gather(cmd.Context(), a.Plan(gather.Plan{Timeout: f.timeout}))
	if err != nil {
		return err
	}
	defer r.Close()
	err = a.Verify(r)
	if err != nil && f.url == "" && len(r.Skipped) > 0 && r.Reasons[r.Skipped[0]] == gatheroutcome.NotFound {
		err = fmt.Errorf("%w; a window that was published without --full needs --store", err)
	}
	if err != nil {
		return err
	}
	return do(s, a, r)
}

func newGatherVerify() *cobra.Command {
	var f againFlags
	c := &cobra.Command{
		Use:   "verify",
		Short: "check a published window against its payloads",
		Long: `Verify fetches the payloads of a published window, from the peers' stores (--store) or from where gather run --full put
them, checks each of them again and compares digests, norms and the result's own digest with what was published.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.again(cmd, func(s *session, a *artifact.Aggregate, r *gather.Result) error {
				r.Close()
				s.clean()
				if f.json {
					return json.NewEncoder(s.out).Encode(map[string]any{"window": r.Window, "ok": true, "peers": len(r.UIDs), "digest": a.Digest})
				}
				fmt.Fprintf(s.out, "window %d: %d payloads are what the aggregate says, digest %v\n", r.Window, len(r.UIDs), a.Digest)
				return nil
			})
		},
	}
	f.add(c.Flags())
	return c
}

func newGatherApply() *cobra.Command {
	var f againFlags
	var how applyFlags
	c := &cobra.Command{
		Use:   "apply",
		Short: "apply a published window to a model",
		Long: `Apply brings a model that missed a window up to date: it gets the payloads of a published window, from the peers' stores
(--store) or from where gather run --full put them, verifies them and applies them. The model is then bit for bit that of the
gather run, if it was the same before and --lr, --momentum, --nesterov and --sign are those of the run. Several windows that
were missed are applied in order, one by one.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if how.model == "" {
				return usagef("--model: expected a safetensors file")
			}
			return f.again(cmd, func(s *session, _ *artifact.Aggregate, r *gather.Result) error {
				out := &summary{Result: r, Details: r.Details, Time: r.Time, Wire: r.Wire, Ranks: s.g.Size()}
				var err error
				if out.Applied, err = how.apply(cmd.Context(), s, r); err != nil {
					return err
				}
				return out.print(s, f.json)
			})
		},
	}
	f.add(c.Flags())
	how.add(c.Flags())
	return c
}

func newGatherOverlap() *cobra.Command {
	var f againFlags
	var threshold float64
	c := &cobra.Command{
		Use:   "overlap",
		Short: "compare the positions that the peers of a published window sent",
		Long: `Overlap tells for which pairs of peers the positions that they sent are the same to --threshold or more, as those of a peer
that copies another's update are. The offender is the peer of the pair that uploaded later.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.again(cmd, func(s *session, _ *artifact.Aggregate, r *gather.Result) error {
				rep, err := overlap.Check(cmd.Context(), s.g.Ranks, r, s.m, &overlap.Options{Threshold: threshold})
				if err != nil {
					return err
				}
				r.Close()
				s.clean()
				if f.json {
					return json.NewEncoder(s.out).Encode(rep)
				}
				tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
				if len(rep.Over) > 0 {
					fmt.Fprintln(tw, "peers\toverlap\toffender\tlevel")
				}
				for _, p := range rep.Over {
					fmt.Fprintf(tw, "%d, %d\t%.3f\t%d\t%v\n", p.A, p.B, p.Overlap, p.Offender, rep.Levels[p.Offender])
				}
				if err := tw.Flush(); err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.out, "%d pairs, %d of them at or above --threshold; mean %.3f, least %.3f, most %.3f\n",
					rep.Pairs, len(rep.Over), rep.Mean, rep.Min, rep.Max)
				return err
			})
		},
	}
	f.add(c.Flags())
	c.Flags().Float64Var(&threshold, "threshold", overlap.Threshold, "overlap from which a pair is reported")
	return c
}
