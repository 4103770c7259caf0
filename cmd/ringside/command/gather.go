package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/shm/plain"
)

func newGather() *cobra.Command {
	c := &cobra.Command{
		Use:   "gather",
		Short: "gather many peers' compressed updates and apply them to a model",

		Annotations: map[string]string{oneForUsage: "yes"},
		Long: `Gather is for peers that train by themselves and meet once in a while, in windows. Each puts its compressed update into a
store (a folder, a web server, an S3 bucket); then any number of ranks fetch all updates at once, check them, agree on a result
and apply it to their model. Started by ringside run, the ranks share the work; the result does not depend on their number.

  ringside gather init    --model model.safetensors                        what updates look like: manifest.json
  ringside gather put     --from old.safetensors --to new.safetensors ...  one peer's update
  ringside gather plan    --window 1 --peers 1,2,3                         what is to be gathered: plan.json
  ringside gather run     --store DIR --model model.safetensors ...        fetch, check, agree, publish, apply
  ringside gather apply   --window 1 --aggregate DIR --model old ...       a published result, by a model that missed it
  ringside gather verify  --window 1 --aggregate DIR ...                   a published result against its payloads
  ringside gather overlap --window 1 --aggregate DIR ...                   whether peers copy from each other
  ringside gather inspect FILE                                             one update

A window has a number that grows. The exit status is 0 when it is done, 2 when the window is skipped for want of peers, and 1
for an error, wrong usage among them.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newGatherInit(), newGatherPut(), newGatherPlan(), newGatherRun(), newGatherApply(), newGatherOverlap(),
		newGatherVerify(), newGatherInspect(), newGatherBench())
	return c
}

// errSkipped has the exit status of a window that is skipped.
func errSkipped(r *gather.Result) error {
	return &exitError{fmt.Errorf("window %d is skipped: %d of %d peers are there, expected at least %d (--min-peers of gather plan); run it again when more are there",
		r.Window, len(r.UIDs), len(r.Intended), r.MinPeers), 2}
}

// storeFlags say where objects lie, and how an S3 server is reached.
type storeFlags struct {
	url      string
	endpoint string
	region   string
	plain    bool
	keys     string
	peerKeys string
}

func (f *storeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "store", "", "where updates lie: a folder, http://host/path or s3://bucket/prefix; {uid} becomes a peer's number")
	flags.StringVar(&f.endpoint, "s3-endpoint", "", "host:port of the S3 server (default: Amazon's)")
	flags.StringVar(&f.region, "s3-region", "", "region of the S3 server (default us-east-1)")
	flags.BoolVar(&f.plain, "s3-plain", false, "reach the S3 server by HTTP instead of HTTPS")
	flags.StringVar(&f.keys, "s3-keys-file", "", "file with access key and secret key, readable by you alone (default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)")
}

// addPeers adds what is about stores of several peers.
func (f *storeFlags) addPeers(flags *pflag.FlagSet) {
	flags.StringVar(&f.peerKeys, "s3-peer-keys-file", "", "file with lines of a peer's number, access key and secret key, readable by you alone; for the updates of these peers")
}

// open returns the store of a URL, with the credentials that are not of one peer.
func (f *storeFlags) open(url string) (store.Store, error) {
	own := credentials{os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")}
	if f.keys != "" {
		var err error
		if own, err = readCredentials(f.keys); err != nil {
			return nil, err
		}
	}
	return f.openAs(url, own)
}

func (f *storeFlags) openAs(url string, as credentials) (store.Store, error) {
	if url == "" {
		return nil, usagef("--store: expected a folder, http://host/path or s3://bucket/prefix")
	}
	return store.New(url, &store.Options{S3: store.S3Options{Endpoint: f.endpoint, Region: f.region, Plain: f.plain,
		AccessKey: as.access, SecretKey: as.secret}})
}

// byPeer returns what opens the store with the update of a peer. Peers that have no
// credentials and no store of their own have one together. It may be called concurrently.
func (f *storeFlags) byPeer() (func(uid uint64) (store.Store, error), error) {
	keys := map[uint64]credentials{}
	if f.peerKeys != "" {
		var err error
		if keys, err = readPeerCredentials(f.peerKeys); err != nil {
			return nil, err
		}
	}
	url := func(uid uint64) string { return strings.ReplaceAll(f.url, "{uid}", strconv.FormatUint(uid, 10)) }
	shared, err := f.open(url(0)) // reports a URL or a file of keys that cannot be
	apart := strings.Contains(f.url, "{uid}")
	if err != nil && !(apart && strings.HasPrefix(f.url, "/")) {
		return nil, err
	}
	return func(uid uint64) (store.Store, error) {
		own, ok := keys[uid]
		switch {
		case ok:
			return f.openAs(url(uid), own)
		case apart:
			return f.open(url(uid))
		}
		return shared, nil
	}, nil
}

// readManifest reads what init wrote.
func readManifest(path string) (*codec.Manifest, error) {
	var m codec.Manifest
	if err := readJSON(path, &m); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--manifest: %w; gather init writes it", err)
	} else if err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", plain.Name(path), plain.Path(err))
	}
	return &m, nil
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return plain.Path(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", plain.Name(path), plain.Path(err))
	}
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// rankFlags are of the commands that several ranks may run together.
type rankFlags struct {
	storeFlags
	manifest, spool string
	publicKeys      string
	concurrency     int
	attempts        int
	timeout         time.Duration
	elastic         bool
	banned          string
	json            bool
}

func (f *rankFlags) add(flags *pflag.FlagSet) {
	f.storeFlags.add(flags)
	f.storeFlags.addPeers(flags)
	flags.StringVar(&f.manifest, "manifest", "manifest.json", "what updates look like, from gather init")
	flags.StringVar(&f.publicKeys, "peer-keys-file", "", "file with the lines that gather put --sign-key-file prints, a peer's number and its public key; a peer whose update is not signed by its key is skipped")
	flags.StringVar(&f.spool, "spool", "", "folder for updates while they are worked on (default: a new one in the folder for temporary files)")
	flags.IntVar(&f.concurrency, "concurrency", 0, "requests under way on each rank (default 8)")
	flags.IntVar(&f.attempts, "attempts", 4, "requests for one update before its peer is given up; 0 for as many as there is time for")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "time for each round of requests; of run, whose plan says it, at least half of that")
	flags.StringVar(&f.banned, "ban", "", "numbers of peers that are not asked, as 1,2,5-9: they are skipped as BANNED")
	flags.BoolVar(&f.elastic, "elastic", false, "go on with the ranks that are left when one is lost")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
}

// session is the ranks of one command at work.
type session struct {
	m     *codec.Manifest
	group *collective.Group
	g     *gather.Gatherer
	out   io.Writer // nothing but on rank 0

	// clean leaves the group and removes the spool. It and the result's Close are called
	// before anything is printed: a reader that is gone ends the process.
	clean func()
}

// start joins the ranks.
func (f *rankFlags) start(cmd *cobra.Command, source func(window, uid uint64) (store.Store, string)) (*session, error) {
	s := &session{out: cmd.OutOrStdout()}
	var err error
	if s.m, err = readManifest(f.manifest); err != nil {
		return nil, err
	}
	keys, err := readPublicKeys(f.publicKeys)
	if err != nil {
		return nil, err
	}
	banned, err := uidList("ban", f.banned)
	if err != nil {
		return nil, err
	}
	log := logger(cmd)
	s.group, err = collective.Init(cmd.Context(), &collective.Options{Logger: log, Timeout: f.patience()})
	if err != nil {
		return nil, err
	}
	spool, remove := f.spool, func() {}
	if spool == "" {
		if spool, err = os.MkdirTemp("", "ringside-gather-"); err != nil {
			s.group.Close()
			return nil, err
		}
		remove = func() { os.RemoveAll(spool) }
	}
	p := &fetchProgress{w: cmd.ErrOrStderr()}
	_, p.term = redraws(p.w)
	s.clean = sync.OnceFunc(func() { p.end(); s.g.Group.Close(); remove() })
	s.g, err = gather.New(s.group, &gather.Options{Manifest: s.m, Spool: spool, Source: source, Keys: keys, Elastic: f.elastic, Logger: log,
		Banned:   func(uid uint64) bool { return slices.Contains(banned, uid) },
		Progress: p.show, Fetch: store.FetchOptions{Concurrency: f.concurrency, Attempts: f.attempts}})
	if err != nil {
		s.group.Close()
		remove()
		return nil, err
	}
	if s.g.Rank() != 0 {
		s.out = io.Discard
	}
	return s, nil
}

// patience is how long ranks wait for one that fetches until its time is up.
func (f *rankFlags) patience() time.Duration { return 2*f.timeout + collective.DefaultTimeout }

// waits returns an error for a plan whose rounds may take longer than ranks wait.
func (f *rankFlags) waits(p *gather.Plan, ranks int) error {
	if ranks == 1 || p.Timeout <= 2*f.timeout {
		return nil
	}
	return usagef("--timeout %v: expected at least half of the plan's timeout of %v, for ranks wait for each other", f.timeout, p.Timeout)
}

// peers returns where updates lie, by --store.
func (f *rankFlags) peers() (func(window, uid uint64) (store.Store, string), error) {
	of, err := f.byPeer()
	if err != nil {
		return nil, err
	}
	return func(window, uid uint64) (store.Store, string) {
		s, err := of(uid)
		if err != nil {
			return unreachable{err}, ""
		}
		return s, artifact.UpdateName(window, uid)
	}, nil
}

// unreachable is the store of a peer whose store cannot be opened.
type unreachable struct{ err error }

func (u unreachable) Open(context.Context, string, store.Get) (*store.Object, error) {
	return nil, u.err
}
func (u unreachable) Put(context.Context, string, io.Reader, int64, *store.PutOptions) error {
	return u.err
}
func (u unreachable) List(context.Context, string) ([]store.Entry, error) { return nil, u.err }
func (u unreachable) Delete(context.Context, string) error                { return u.err }

// fetchProgress draws over one line on a terminal, and writes nothing elsewhere.
type fetchProgress struct {
	w     io.Writer
	term  bool
	drawn bool
}

func (p *fetchProgress) show(s gather.Progress) {
	if p.term {
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d peers, %d right, %s", s.Done, s.Peers, s.OK, inMiB(s.Bytes))
		p.drawn = true
	}
}

func (p *fetchProgress) end() {
	if p.drawn {
		fmt.Fprintln(p.w)
	}
}

func inMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// uidList reads numbers with commas between them; a-b is all from a to b.
func uidList(flag, text string) ([]uint64, error) {
	var out []uint64
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		a, b, ranged := strings.Cut(word, "-")
		from, err := strconv.ParseUint(a, 10, 64)
		to := from
		if ranged && err == nil {
			to, err = strconv.ParseUint(b, 10, 64)
		}
		switch {
		case err != nil:
			return nil, usagef("--%s %s: expected peers' numbers, as 1,2,5-9", flag, word)
		case to < from:
			return nil, usagef("--%s %s: expected the smaller number first, as %d-%d", flag, word, to, from)
		case to-from >= gather.MaxPeers:
			return nil, usagef("--%s %s: expected at most %d peers", flag, word, gather.MaxPeers)
		}
		for i := range to - from + 1 { // the largest number has none behind it
			out = append(out, from+i)
		}
	}
	return out, nil
}

// weightList reads peers' weights with commas between them, as 3=0.5,7=0.
func weightList(text string) (map[uint64]float64, error) {
	var out map[uint64]float64
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		peer, weight, _ := strings.Cut(word, "=")
		uid, err := strconv.ParseUint(peer, 10, 64)
		w, errWeight := strconv.ParseFloat(weight, 64)
		if _, twice := out[uid]; err != nil || errWeight != nil || twice || !(w >= 0 && w <= 1) {
			return nil, usagef("--weights %s: expected each peer's number and weight once, from 0 to 1, as 3=0.5,7=0", word)
		}
		if out == nil {
			out = map[uint64]float64{}
		}
		out[uid] = w
	}
	return out, nil
}

// given returns an error for a number that is not on the command line: 0 is a number.
func given(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if !cmd.Flags().Changed(name) {
			return usagef("--%s: expected the %s", name, cmd.Flags().Lookup(name).Usage)
		}
	}
	return nil
}
