package main

import (
	"context"
	"encoding/json"

	"github.com/ringside-go/ringside/tensor/cluster"
)

// clusterOptions are what starts a cluster, as JSON. Zero fields are the defaults.
type clusterOptions struct {
	Workers    int    `json:"workers"`
	Threads    int    `json:"threads"`     // of each worker
	Exe        string `json:"exe"`         // the ringside command; none: in this process
	SessionMiB int    `json:"session_mib"` // of each worker
	Restart    bool   `json:"restart"`
}

// startedCluster is a dispatcher and its workers.
type startedCluster struct{ *cluster.Cluster }

// startCluster starts a dispatcher and workers, as processes that end with this one.
func startCluster(options string) (*startedCluster, error) {
	var o clusterOptions
	if err := fromJSON(options, &o); err != nil {
		return nil, err
	}
	c, err := cluster.Start(context.Background(), &cluster.Options{Workers: o.Workers, Threads: o.Threads, Exe: o.Exe, InProcess: o.Exe == "",
		SessionMiB: o.SessionMiB, Restart: o.Restart})
	return &startedCluster{c}, err
}

// about describes the cluster as JSON: its address, and its processes by name.
func (c *startedCluster) about() (string, error) {
	pids := map[string]int{}
	for _, p := range c.Parts() {
		pids[p.Name] = p.PID
	}
	text, err := json.Marshal(map[string]any{"addr": c.Addr(), "processes": pids})
	return string(text), err
}

// close ends all processes and waits for their end.
func (c *startedCluster) close() error { return c.Close() }
