package command

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	s3creds "github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/artifact"
	stores "github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// writeModel writes a model of two parameters; each peer's is another one.
func writeModel(t *testing.T, path string, peer uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(peer, 0))
	var all []safetensors.Tensor
	for _, p := range []struct {
		name  string
		shape []int64
	}{{"weight", []int64{128, 192}}, {"bias", []int64{192}}} {
		n := int64(1)
		for _, d := range p.shape {
			n *= d
		}
		b := make([]byte, 0, 4*n)
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(rng.NormFloat64())))
		}
		all = append(all, safetensors.Tensor{Name: p.name, DType: safetensors.F32, Shape: p.shape, Data: b})
	}
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
}

// TestT28Gather is the tour of README.md: from init to a verified aggregate that is
// applied, over a folder and over the real S3 gateway.
func TestT28Gather(t *testing.T) {
	t.Run("folder", func(t *testing.T) {
		dir := t.TempDir()
		tour(t, filepath.Join(dir, "store"), filepath.Join(dir, "published"), func(key string) string { return filepath.Join(dir, "store", key) })
	})
	t.Run("s3", func(t *testing.T) {
		g := storetest.StartGateway(t, os.Getenv)
		g.Bucket(t, "updates")
		g.Bucket(t, "published")
		key, secret := g.Keys()
		keys := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(keys, []byte(key+" "+secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tour(t, "s3://updates", "s3://published", func(key string) string { return filepath.Join(g.Data, "updates", key) },
			"--s3-endpoint", g.Endpoint, "--s3-plain", "--s3-keys-file", keys)
	})
}

func tour(t *testing.T, store, published string, file func(key string) string, s3 ...string) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(args ...string) string {
		t.Helper()
		out, errOut, err := execute(t, append([]string{"gather"}, args...)...)
		if err != nil {
			t.Fatalf("gather %v: %v\n%s", args, err, errOut)
		}
		return out
	}
	with := func(args ...string) []string { return append(append(args, "--manifest", in("manifest.json")), s3...) }
	writeModel(t, in("model"), 0)
	writeModel(t, in("copy"), 0)
	must("init", "--model", in("model"), "--manifest", in("manifest.json"))
	for uid := uint64(1); uid <= 3; uid++ {
		peer := in(fmt.Sprint("peer", uid))
		writeModel(t, peer, uid)
		out := must(with("put", "--from", in("model"), "--to", peer, "--uid", fmt.Sprint(uid), "--window", "1", "--store", store, "--residual", peer+".residual", "--json")...)
		var put struct{ Bytes int64 }
		if err := json.Unmarshal([]byte(out), &put); err != nil || put.Bytes == 0 {
			t.Fatalf("put says %s: %v", out, err)
		}
	}
	must("plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1-4")
	before, err := os.ReadFile(in("model"))
	if err != nil {
		t.Fatal(err)
	}
	out := must(with("run", "--plan", in("plan"), "--store", store, "--publish", published, "--full", "--model", in("model"), "--lr", "0.7", "--json")...)
	var r struct {
		UIDs    []uint64 `json:"uids"`
		Reasons map[string]string
		Applied apply.Stats
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.UIDs) != 3 || r.Reasons["4"] != "NOT_FOUND" || r.Applied.Values == 0 {
		t.Fatalf("run says %s: %v", out, err)
	}
	after, err := os.ReadFile(in("model"))
	if err != nil || string(after) == string(before) {
		t.Fatalf("the model is as before: %v", err)
	}
	if _, _, err := execute(t, append([]string{"gather"}, with("run", "--plan", in("plan"), "--store", store, "--model", in("model"), "--lr", "0.7")...)...); !errors.Is(err, apply.ErrAlreadyApplied) {
		t.Errorf("run again: %v, expected ErrAlreadyApplied", err)
	}
	writeModel(t, in("killed"), 0)
	must(with("run", "--plan", in("plan"), "--store", store, "--publish", published, "--full", "--model", in("killed"), "--lr", "0.7")...)
	if b, err := os.ReadFile(in("killed")); err != nil || string(b) != string(after) {
		t.Errorf("a window that is published and not applied gives another model: %v", err)
	}
	must("plan", "--manifest", in("manifest.json"), "--plan", in("fewer"), "--window", "1", "--peers", "1-2")
	if _, _, err := execute(t, append([]string{"gather"}, with("run", "--plan", in("fewer"), "--store", store, "--publish", published)...)...); !errors.Is(err, stores.ErrExists) ||
		!strings.Contains(err.Error(), "gather apply --window 1 ") {
		t.Errorf("another result of a published window: %v, expected ErrExists and a word about gather apply", err)
	}
	again := with("--aggregate", published, "--window", "1")
	part := published + "/part"
	publish := with("run", "--plan", in("plan"), "--store", store, "--publish", part, "--attempts", "1")
	must(publish...)
	must(append([]string{"verify", "--store", store}, again...)...)
	must(append([]string{"verify"}, again...)...)
	if out := must(append([]string{"overlap"}, again...)...); !strings.Contains(out, "3 pairs") {
		t.Errorf("overlap says %s", out)
	}
	// of a window that was not published, and of one without payloads
	for _, sub := range []string{"verify", "overlap"} {
		_, _, err := execute(t, append([]string{"gather", sub}, with("--aggregate", published, "--window", "2")...)...)
		if err == nil || !strings.Contains(err.Error(), "--aggregate has no window 2") {
			t.Errorf("%s of a window that is not there: %v", sub, err)
		}
		_, _, err = execute(t, append([]string{"gather", sub}, with("--aggregate", part, "--window", "1", "--attempts", "1")...)...)
		if !errors.Is(err, artifact.ErrVerify) || !strings.Contains(err.Error(), "needs --store") {
			t.Errorf("%s without payloads: %v, expected ErrVerify and a word about --store", sub, err)
		}
	}
	must(append([]string{"apply", "--model", in("copy"), "--lr", "0.7"}, again...)...)
	if s3 == nil { // as after a crash between payloads and result
		torn := t.TempDir()
		if err := os.WriteFile(filepath.Join(torn, artifact.FullName(1)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err := execute(t, append([]string{"gather"}, with("run", "--plan", in("plan"), "--store", store, "--publish", torn, "--full", "--attempts", "1")...)...)
		if err == nil || !strings.Contains(err.Error(), "remove aggregate-1.full") {
			t.Errorf("published over payloads: %v, expected a word about removing them", err)
		}
	}
	if copied, err := os.ReadFile(in("copy")); err != nil || string(copied) != string(after) {
		t.Errorf("the published aggregate gives another model: %v", err)
	}
	name := file("update-1-2.grd1")
	if out := must("inspect", name, "--manifest", in("manifest.json")); !strings.Contains(out, "peer 2, window 1") {
		t.Errorf("inspect says %s", out)
	}
	for _, c := range []struct {
		args []string
		want string // of the error
	}{
		{[]string{name, "--uid", "2"}, ""},
		{[]string{name, "--window", "1"}, ""},
		{[]string{name, "--uid", "3"}, "expected window 1 of peer 3"},
		{[]string{name, "--window", "0"}, "expected window 0 of peer 2"},
		{nil, "0 files: expected one"},
	} {
		_, _, err := execute(t, append([]string{"gather", "inspect", "--manifest", in("manifest.json")}, c.args...)...)
		if said := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("inspect %v: %v, expected %q", c.args, err, c.want)
		}
	}
	flip(t, name)
	if _, _, err := execute(t, append([]string{"gather", "verify", "--store", store}, again...)...); !errors.Is(err, artifact.ErrVerify) {
		t.Errorf("verify after a byte was flipped: %v, expected ErrVerify", err)
	}
	if _, _, err := execute(t, "gather", "inspect", name, "--manifest", in("manifest.json")); err == nil {
		t.Error("inspect took an update with a flipped byte")
	}
}

// flip changes one byte in the middle of a file.
func flip(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGatherSkipped: a window without peers has the exit status 2; a plan that was
// changed to what cannot be applied is an error before anything is fetched.
func TestGatherSkipped(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeModel(t, in("model"), 0)
	for _, args := range [][]string{
		{"init", "--model", in("model"), "--manifest", in("manifest.json")},
		{"plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1,2"},
	} {
		if _, _, err := execute(t, append([]string{"gather"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	out, _, err := execute(t, "gather", "run", "--manifest", in("manifest.json"), "--plan", in("plan"), "--store", in("store"), "--attempts", "1", "--json")
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != 2 || !strings.Contains(out, `"skip":true`) || !strings.Contains(err.Error(), "expected at least 1 ") {
		t.Errorf("%v, %s; expected the exit status 2 and the least number of peers", err, out)
	}
	p, err := readPlan(in("plan"))
	if err != nil || len(p.Intended) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, change := range map[string]func(*gather.Plan){
		"a rule that is not known": func(p *gather.Plan) { p.Policy.Aggregator = "strange" },
		"weights of a median":      func(p *gather.Plan) { p.Policy.Aggregator, p.Weights = "median", map[uint64]float64{1: 0.5} },
	} {
		bad := *p
		change(&bad)
		if err := writeJSON(in("bad"), &bad); err != nil {
			t.Fatal(err)
		}
		if _, _, err := execute(t, "gather", "run", "--manifest", in("manifest.json"), "--plan", in("bad"), "--store", in("store"), "--attempts", "1"); !errors.Is(err, agg.ErrRule) {
			t.Errorf("%s: %v, expected ErrRule", name, err)
		}
	}
}

// TestGatherReaderGone: a process whose output nothing reads leaves nothing of its spool.
func TestGatherReaderGone(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeModel(t, in("model"), 0)
	for _, args := range [][]string{
		{"init", "--model", in("model"), "--manifest", in("manifest.json")},
		{"put", "--manifest", in("manifest.json"), "--update", in("model"), "--uid", "1", "--window", "1", "--store", in("store")},
		{"plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1"},
		{"run", "--manifest", in("manifest.json"), "--plan", in("plan"), "--store", in("store"), "--publish", in("published")},
	} {
		if _, errOut, err := execute(t, append([]string{"gather"}, args...)...); err != nil {
			t.Fatalf("gather %v: %v\n%s", args, err, errOut)
		}
	}
	for _, args := range [][]string{
		{"run", "--plan", in("plan")},
		{"run", "--plan", in("plan"), "--json", "--spool", in("tmp/spool")},
		{"verify", "--window", "1", "--aggregate", in("published")},
		{"overlap", "--window", "1", "--aggregate", in("published")},
	} {
		if err := os.MkdirAll(in("tmp/spool"), 0o700); err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		c := ringside(t, append([]string{"gather", args[0], "--manifest", in("manifest.json"), "--store", in("store")}, args[1:]...)...)
		c.Env = append(os.Environ(), "TMPDIR="+in("tmp"))
		c.Stdout = w
		err = c.Run()
		w.Close()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
			t.Errorf("%v: %v, expected to be ended by SIGPIPE", args, err)
		}
		if left := listing(t, in("tmp")); len(left) != 2 {
			t.Errorf("%v: %v is left", args, left[2:])
		}
	}
}

// TestGatherSecrets: a file of keys that others can read is refused, and no secret is
// printed.
func TestGatherSecrets(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("id verysecret extra"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o600} {
		if err := os.Chmod(keys, mode); err != nil {
			t.Fatal(err)
		}
		for _, f := range []storeFlags{{url: "s3://bucket", keys: keys}, {url: "s3://bucket", peerKeys: keys}} {
			if _, err := f.byPeer(); err == nil || strings.Contains(err.Error(), "verysecret") {
				t.Errorf("mode %v, %+v: %v", mode, f, err)
			}
		}
	}
}

// TestGatherSigned: with a file of public keys, peers whose update is not signed by their
// key are skipped with their outcome; so is a peer that has no key.
func TestGatherSigned(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) string {
		t.Helper()
		out, errOut, err := execute(t, append([]string{"gather"}, args...)...)
		if err != nil {
			t.Fatalf("gather %v: %v\n%s", args, err, errOut)
		}
		return out
	}
	writeModel(t, in("model"), 0)
	run("init", "--model", in("model"), "--manifest", in("manifest.json"))
	keys := "# uid, key\n"
	// by peer: the peer whose seed it signs with; 0 does not sign
	for uid, signs := range map[uint64]uint64{1: 1, 2: 0, 3: 1, 4: 4} {
		writeModel(t, in("peer"), uid)
		args := []string{"put", "--manifest", in("manifest.json"), "--from", in("model"), "--to", in("peer"), "--uid", fmt.Sprint(uid),
			"--window", "1", "--store", in("store"), "--json"}
		seed := func(n uint64) string {
			name := in(fmt.Sprint("seed", n))
			if err := os.WriteFile(name, fmt.Appendf(nil, "%064x\n", n), 0o600); err != nil {
				t.Fatal(err)
			}
			return name
		}
		if signs != 0 {
			args = append(args, "--sign-key-file", seed(signs))
		}
		run(args...)
		key, err := readSeed(seed(uid))
		if err != nil {
			t.Fatal(err)
		}
		if uid != 4 { // has no key
			keys += fmt.Sprintf("%d %x\n", uid, key.Public())
		}
	}
	if err := os.WriteFile(in("keys"), []byte(keys), 0o644); err != nil {
		t.Fatal(err)
	}
	run("plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1-4")
	gathered := func(more ...string) (uids []uint64, reasons map[string]string) {
		t.Helper()
		out := run(append([]string{"run", "--manifest", in("manifest.json"), "--plan", in("plan"), "--store", in("store"), "--json"}, more...)...)
		var r struct {
			UIDs    []uint64 `json:"uids"`
			Reasons map[string]string
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return r.UIDs, r.Reasons
	}
	if uids, _ := gathered(); len(uids) != 4 {
		t.Errorf("without keys %v are taken, expected all", uids)
	}
	if uids, reasons := gathered("--ban", "2-3"); !slices.Equal(uids, []uint64{1, 4}) || reasons["2"] != "BANNED" {
		t.Errorf("%v are taken, skipped are %v; expected 1 and 4", uids, reasons)
	}
	uids, reasons := gathered("--peer-keys-file", in("keys"))
	if want := map[string]string{"2": "BAD_DIGEST", "3": "BAD_DIGEST", "4": "BAD_DIGEST"}; !slices.Equal(uids, []uint64{1}) || !maps.Equal(reasons, want) {
		t.Errorf("%v are taken, skipped are %v; expected 1, %v", uids, reasons, want)
	}
	for _, bad := range []string{"1\n", "1 abc\n", "x " + strings.Repeat("0", 64), keys + "1 " + strings.Repeat("0", 64)} {
		if err := os.WriteFile(in("keys"), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if k, err := readPublicKeys(in("keys")); err == nil {
			t.Errorf("%q gave %v", bad, k)
		}
	}
}

// TestGatherPeerCredentials: each peer's bucket is read with that peer's own keys, over
// the real S3 gateway; a peer with a wrong secret is skipped with FORBIDDEN.
func TestGatherPeerCredentials(t *testing.T) {
	g := storetest.StartGateway(t, os.Getenv)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	run := func(args ...string) string {
		t.Helper()
		out, errOut, err := execute(t, append([]string{"gather"}, args...)...)
		if err != nil {
			t.Fatalf("gather %v: %v\n%s", args, err, errOut)
		}
		return out
	}
	rootKey, rootSecret := g.Keys()
	root := write("root", rootKey+" "+rootSecret)
	admin, err := minio.New(g.Endpoint, &minio.Options{Creds: s3creds.NewStaticV4(rootKey, rootSecret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	s3 := func(args ...string) []string {
		return append(args, "--manifest", in("manifest.json"), "--store", "s3://peer{uid}", "--s3-endpoint", g.Endpoint, "--s3-plain")
	}
	writeModel(t, in("model"), 0)
	run("init", "--model", in("model"), "--manifest", in("manifest.json"))
	keys := ""
	for uid := uint64(1); uid <= 3; uid++ {
		bucket, user, secret := fmt.Sprint("peer", uid), fmt.Sprint("reader", uid), fmt.Sprint("secret-of-peer-", uid)
		g.Bucket(t, bucket)
		g.User(t, user, secret)
		if err := admin.SetBucketPolicy(t.Context(), bucket, g.Policy(bucket, user)); err != nil {
			t.Fatal(err)
		}
		writeModel(t, in("peer"), uid)
		run(s3("put", "--from", in("model"), "--to", in("peer"), "--uid", fmt.Sprint(uid), "--window", "1", "--s3-keys-file", root)...)
		if uid == 3 {
			secret = "wrong"
		}
		keys += fmt.Sprintf("%d %s %s\n", uid, user, secret)
	}
	run("plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1-3")
	out := run(s3("run", "--plan", in("plan"), "--s3-peer-keys-file", write("keys", keys), "--json")...)
	var r struct {
		UIDs    []uint64 `json:"uids"`
		Reasons map[string]string
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || !slices.Equal(r.UIDs, []uint64{1, 2}) || r.Reasons["3"] != "FORBIDDEN" || strings.Contains(out, "secret-of") {
		t.Errorf("run says %s: %v", out, err)
	}
}

// TestGatherTorch: a file of torch.save becomes an update that run takes.
func TestGatherTorch(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	var all []safetensors.Tensor
	for name, shape := range map[string][]int64{"weight": {64, 128}, "bias": {64}} {
		n := int64(4)
		for _, d := range shape {
			n *= d
		}
		all = append(all, safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: make([]byte, n)})
	}
	if err := safetensors.WriteFile(in("model"), all, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "..", "gather", "torch", "testdata", "known.pt")
	for _, args := range [][]string{
		{"init", "--known", "--model", in("model"), "--manifest", in("manifest.json")},
		{"put", "--manifest", in("manifest.json"), "--torch", file, "--uid", "3", "--window", "7", "--store", in("store")},
		{"plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "7", "--peers", "3"},
		{"run", "--manifest", in("manifest.json"), "--plan", in("plan"), "--store", in("store"), "--model", in("model")},
	} {
		if _, errOut, err := execute(t, append([]string{"gather"}, args...)...); err != nil {
			t.Fatalf("gather %v: %v\n%s", args, err, errOut)
		}
	}
	for _, more := range [][]string{{"--residual", in("r")}, {"--update", in("model")}} {
		args := append([]string{"gather", "put", "--manifest", in("manifest.json"), "--torch", file, "--store", in("store")}, more...)
		var usage *usageError
		if _, _, err := execute(t, args...); !errors.As(err, &usage) {
			t.Errorf("%v: %v, expected an error of usage", more, err)
		}
	}
}

// TestGatherWeights: the plan has the weights that are given, and no others.
func TestGatherWeights(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeModel(t, in("model"), 0)
	if _, errOut, err := execute(t, "gather", "init", "--model", in("model"), "--manifest", in("manifest.json")); err != nil {
		t.Fatalf("%v\n%s", err, errOut)
	}
	planned := func(more ...string) (string, error) {
		out, _, err := execute(t, append([]string{"gather", "plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1", "--peers", "1-3", "--json"}, more...)...)
		return out, err
	}
	if out, err := planned("--weights", "1=0.5,3=0"); err != nil || !strings.Contains(out, `"weights":{"1":0.5,"3":0}`) {
		t.Errorf("%v: %s, expected the weights of 1 and 3", err, out)
	}
	if out, err := planned(); err != nil || strings.Contains(out, "weights") {
		t.Errorf("%v: %s, expected no weights", err, out)
	}
	for _, bad := range []string{"1", "1=", "=1", "1=2", "1=-0.1", "1=NaN", "1=0.5,1=0.5", "9=1"} {
		var usage *usageError
		if out, err := planned("--weights", bad); !errors.As(err, &usage) {
			t.Errorf("--weights %s: %v, %s; expected an error of usage", bad, err, out)
		}
	}
	var usage *usageError
	if _, err := planned("--weights", "1=0.5", "--aggregate", "median"); !errors.As(err, &usage) {
		t.Errorf("weights of a median: %v, expected an error of usage", err)
	}
}

// TestGatherWaits: a plan whose rounds take longer than ranks wait for each other is
// refused, unless one rank is alone.
func TestGatherWaits(t *testing.T) {
	f := rankFlags{timeout: time.Minute}
	for _, c := range []struct {
		timeout time.Duration
		ranks   int
		ok      bool
	}{{time.Minute, 2, true}, {2 * time.Minute, 2, true}, {2*time.Minute + 1, 2, false}, {time.Hour, 1, true}, {math.MaxInt64, 2, false}} {
		err := f.waits(&gather.Plan{Timeout: c.timeout}, c.ranks)
		var usage *usageError
		if c.ok && err != nil || !c.ok && !errors.As(err, &usage) {
			t.Errorf("%v, %d ranks: %v, expected no error: %v", c.timeout, c.ranks, err, c.ok)
		}
	}
}

// TestUIDList: a list has what its words name, up to the largest number there is.
func TestUIDList(t *testing.T) {
	const most = math.MaxUint64
	for text, want := range map[string][]uint64{"": nil, "3": {3}, "7,1-3,": {7, 1, 2, 3}, "0": {0},
		fmt.Sprint(uint64(most)): {most}, fmt.Sprintf("%d-%d", uint64(most-1), uint64(most)): {most - 1, most}} {
		if got, err := uidList("peers", text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, expected %v", text, got, err, want)
		}
	}
	for bad, says := range map[string]string{
		"3-1": "--peers 3-1: expected the smaller number first, as 1-3", "0-65535": "--peers 0-65535: expected at most 65535 peers",
	} {
		if _, err := uidList("peers", bad); err == nil || err.Error() != says {
			t.Errorf("%s: %v, expected %s", bad, err, says)
		}
	}
	for _, bad := range []string{"x", "-1", "1-", "3-1", "1-2-3", "0-65535", fmt.Sprintf("0-%d", uint64(most)), "18446744073709551616"} {
		if got, err := uidList("peers", bad); err == nil {
			t.Errorf("%q: %d numbers, expected an error", bad, len(got))
		}
	}
}

// TestGatherNextStep: the error of a file that is not there says what makes it.
func TestGatherNextStep(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeModel(t, in("model"), 0)
	for _, c := range []struct{ args, want []string }{
		{[]string{"put", "--update", in("model"), "--uid", "1", "--window", "1", "--store", in("store")}, []string{"manifest.json", "gather init"}},
		{[]string{"init", "--known", "--bins", "4", "--model", in("model")}, []string{"--known and --bins"}},
		{[]string{"init", "--model", in("model")}, nil},
		{[]string{"put", "--update", in("model"), "--uid", "1", "--window", "1", "--store", in("store"), "--sign-key-file", in("key")}, []string{"openssl"}},
		{[]string{"run", "--store", in("store"), "--plan", in("plan")}, []string{"gather plan"}},
	} {
		_, _, err := execute(t, append(append([]string{"gather"}, c.args...), "--manifest", in("manifest.json"))...)
		if said := fmt.Sprint(err); (err == nil) != (c.want == nil) || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(said, w) }) {
			t.Errorf("gather %v: %v, expected %q", c.args, err, c.want)
		}
	}
}

// TestGatherPlanRefused: a plan whose window would always be skipped is not written.
func TestGatherPlanRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeModel(t, in("model"), 0)
	if _, errOut, err := execute(t, "gather", "init", "--model", in("model"), "--manifest", in("manifest.json")); err != nil {
		t.Fatalf("%v\n%s", err, errOut)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--peers: expected the numbers of the peers"},
		{[]string{"--peers", "1-3", "--reserves", "4-9", "--min-peers", "4"}, "--min-peers 4: expected at most 3"},
		{[]string{"--peers", "1,1,1", "--min-peers", "2"}, "--min-peers 2: expected at most 1"},
	} {
		var usage *usageError
		_, _, err := execute(t, append([]string{"gather", "plan", "--manifest", in("manifest.json"), "--plan", in("plan"), "--window", "1"}, c.args...)...)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("gather plan %v: %v, expected an error of usage: %s", c.args, err, c.want)
		}
		if _, err := os.Stat(in("plan")); err == nil {
			t.Errorf("gather plan %v wrote a plan", c.args)
		}
	}
}

// TestGatherNumbers: window and peer 0 exist, so neither is taken for granted.
func TestGatherNumbers(t *testing.T) {
	const ways = "expected --update, or --from and --to, or --torch without --residual"
	model := filepath.Join(t.TempDir(), "model")
	writeModel(t, model, 0)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"plan", "--peers", "1-3"}, "--window: expected the number of the window"},
		{[]string{"verify", "--aggregate", "a"}, "--window: expected the number of the window"},
		{[]string{"apply", "--aggregate", "a", "--model", "m"}, "--window: expected the number of the window"},
		{[]string{"overlap", "--aggregate", "a"}, "--window: expected the number of the window"},
		{[]string{"put", "--update", "u", "--uid", "1"}, "--window: expected the number of the window"},
		{[]string{"put", "--update", "u", "--window", "1"}, "--uid: expected the number of this peer"},
		{[]string{"put", "--from", model, "--to", model, "--uid", "1", "--window", "1"},
			"--from and --to are the same file, " + model + ": expected the model before and after a peer's steps"},
		{[]string{"put", "--from", model, "--uid", "1", "--window", "1"}, ways},
		{[]string{"put", "--update", "u", "--from", model, "--uid", "1", "--window", "1"}, ways},
	} {
		var usage *usageError
		if _, _, err := execute(t, append([]string{"gather"}, c.args...)...); !errors.As(err, &usage) || err.Error() != c.want {
			t.Errorf("gather %v: %v, expected an error of usage: %s", c.args, err, c.want)
		}
	}
}
