package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/bytedance/sonic"
)

// result is a window's result as package gather writes it.
type result struct {
	Window      uint64            `json:"window"`
	Skip        bool              `json:"skip"`
	UIDs        []uint64          `json:"uids"`
	GlobalSteps []uint64          `json:"global_steps"`
	Skipped     []uint64          `json:"skipped_uids"`
	SuccessRate float64           `json:"success_rate"`
	Intended    []uint64          `json:"intended"`
	ReserveUsed int               `json:"reserve_used"`
	Upload      int64             `json:"upload_bytes"`
	Download    int64             `json:"download_bytes"`
	Reasons     map[uint64]string `json:"reasons"`
	Peers       []record          `json:"peers"`
	ClipNorms   []float64         `json:"clip_norms"`
	Removed     int               `json:"duplicates_removed"`
	Duplicates  int               `json:"duplicates"`
	Conflicts   int               `json:"conflicts"`
	PlanDigest  string            `json:"plan"`
	Manifest    string            `json:"manifest"`
	Aggregator  string            `json:"aggregator"`
}

type record struct {
	UID      uint64            `json:"uid"`
	Status   string            `json:"status"`
	Detail   string            `json:"detail,omitempty"`
	ETag     string            `json:"etag,omitempty"`
	Modified int64             `json:"last_modified,omitempty"`
	Size     int64             `json:"payload_bytes,omitempty"`
	Step     uint64            `json:"global_step,omitempty"`
	Digest   string            `json:"digest"`
	Indices  string            `json:"indices"`
	Meta     map[string]string `json:"meta,omitempty"`
	Norms    []float64         `json:"norms,omitempty"`
}

// jsonCodec reads and writes JSON.
type jsonCodec struct {
	read  func(b []byte, v any) error
	write func(v any) ([]byte, error)
}

func jsonCodecs() map[string]jsonCodec {
	std := sonic.ConfigStd // as encoding/json does it
	return map[string]jsonCodec{"encoding/json": {json.Unmarshal, json.Marshal}, "sonic": {std.Unmarshal, std.Marshal}}
}

// measureJSON prints the times of reading and writing the result in a file, n times.
func measureJSON(c jsonCodec, file string, n int) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return timed(os.Stdout, n, func() error {
		var r result
		if err := c.read(b, &r); err != nil {
			return err
		}
		out, err := c.write(&r)
		if err == nil && len(out) != len(b) {
			err = fmt.Errorf("%s: %d bytes came back as %d", file, len(b), len(out))
		}
		return err
	})
}
