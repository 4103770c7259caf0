// Command gather has three peers that trained one matrix apart, each by itself, put
// compressed updates into a folder; then one process gets all of them, agrees on a
// result, and applies it.
//
//	go run .
//
// The same calls gather from S3 and web servers, and share the work among ranks
// (`ringside gather --help`).
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/store"
)

const (
	rows, columns = 64, 64
	window        = 1
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gather:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "gather-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The form of updates, which all peers have.
	manifest, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{rows, columns}, DType: "F32"}})
	if err != nil {
		return err
	}
	updates, err := store.NewFile(filepath.Join(dir, "updates"))
	if err != nil {
		return err
	}
	peers := []uint64{1, 2, 3}
	for _, uid := range peers {
		if err := put(ctx, updates, manifest, uid); err != nil {
			return err
		}
	}

	gatherer, err := gather.New(nil, &gather.Options{
		Manifest: manifest, Spool: filepath.Join(dir, "spool"),
		Source: func(window, uid uint64) (store.Store, string) { return updates, artifact.UpdateName(window, uid) },
	})
	if err != nil {
		return err
	}
	plan := &gather.Plan{Window: window, Intended: append(peers, 4), Manifest: manifest.Digest(), Timeout: time.Minute, Policy: gather.Policy{MinPeers: 2}}
	result, err := gatherer.Gather(ctx, plan)
	if err != nil {
		return err
	}
	fmt.Printf("taken: peers %v\n", result.UIDs)
	for _, uid := range result.Skipped {
		fmt.Printf("left out: peer %d, %s\n", uid, result.Reasons[uid])
	}

	weights := apply.NewMem(manifest)
	if _, err := apply.Update(ctx, gather.Ranks{}, result, manifest, weights, &apply.Options{}); err != nil {
		return err
	}
	fmt.Printf("the first weights are %.2f\n", weights[0][:4])
	return nil
}

// put compresses the update of a peer and puts it into the store.
func put(ctx context.Context, s store.Store, m *codec.Manifest, uid uint64) error {
	payload, err := codec.NewEncoder(m, nil).Encode(codec.Header{Window: window, UID: uid}, func(_ int, dst []float32) error {
		for i := range dst {
			dst[i] = float32(uid) // in training: the weights before less those after
		}
		return nil
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := payload.WriteTo(&b); err != nil {
		return err
	}
	return s.Put(ctx, artifact.UpdateName(window, uid), &b, int64(b.Len()), nil)
}
