package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
)

// The result whose JSON is timed.
const (
	gatherJSONPeers  = 256
	gatherJSONParams = 300
)

// gatherJSON has programs of their own read and write a large result: a whole command,
// from its start to its end, and again and again in one process.
func gatherJSON(r *run) {
	peers := heavyPeers(r, "bytedance/sonic")
	if peers == nil {
		return
	}
	b := must(largeResult(r.work(gatherJSONPeers)).JSON())
	file := filepath.Join(r.tempDir(), "result.json")
	check(os.WriteFile(file, b, 0o600))
	var sides []side
	for _, lib := range []string{"encoding/json", "sonic"} {
		what := fmt.Sprintf("result of %.1f MB, read and written by %s", float64(len(b))/1e6, lib)
		sides = append(sides,
			number(what+", a whole command", "ms", 1, func() float64 {
				begin := time.Now()
				peers.run(r.ctx, lib, 1, file)
				return time.Since(begin).Seconds() * 1e3
			}),
			number(what+", the tenth time", "ms", 1, func() float64 { return peers.run(r.ctx, lib, 10, file)[9] / 1e6 }))
	}
	r.measure(turns{rounds: r.rounds(9)}, sides...)
}

// largeResult is a result of so many peers with numbers of all digits.
func largeResult(peers int) *gather.Result {
	rng := rand.New(rand.NewPCG(1, 2))
	norms := func() []float64 {
		x := make([]float64, gatherJSONParams)
		for i := range x {
			x[i] = rng.ExpFloat64()
		}
		return x
	}
	digest := func() (d codec.Digest) {
		for i := range d {
			d[i] = byte(rng.Uint32())
		}
		return d
	}
	r := &gather.Result{Window: gatherWindow, SuccessRate: 1, ClipNorms: norms(), PlanDigest: digest(), Manifest: digest(), Aggregator: "clip-mean"}
	for uid := range uint64(peers) {
		r.UIDs, r.Intended, r.GlobalSteps = append(r.UIDs, uid), append(r.Intended, uid), append(r.GlobalSteps, 300)
		r.Peers = append(r.Peers, gather.Record{UID: uid, ETag: fmt.Sprintf("%032x", rng.Uint64()), Modified: 1.8e9, Size: 1e9, Step: 300,
			Digest: digest(), Indices: digest(), Norms: norms(), Meta: map[string]string{"sample_digest": "ab"}})
	}
	return r
}
