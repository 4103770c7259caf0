package client

import (
	"fmt"
	"slices"
	"strings"
)

// Path is how bytes of a session travel between the client and workers.
type Path struct {
	What    string   // "messages" or "tensors"
	Workers []string // their names
	By      string   // the way
	Why     string   // why it is not a faster way; empty for the fastest
}

// String returns the path as a line of text.
func (p Path) String() string {
	s := fmt.Sprintf("%s, client and %s: %s", p.What, strings.Join(p.Workers, ", "), p.By)
	if p.Why != "" {
		s += "; no faster way, because " + p.Why
	}
	return s
}

// paths are those of a session. They stay the same once it is open.
type paths struct{ all []Path }

// Paths returns how messages and tensors travel between the client and its workers. How
// workers reach each other they know themselves: metrics.PathsOf. Any goroutine may call
// it.
func (p *paths) Paths() []Path { return slices.Clone(p.all) }

// Explain returns the lines of Paths.
func (p *paths) Explain() (lines []string) {
	for _, x := range p.all {
		lines = append(lines, x.String())
	}
	return lines
}

// pathsOf returns the paths of a session that is open.
func pathsOf(t *team, c *channels) []Path {
	var near, far []string
	for i := range t.workers {
		if w := &t.workers[i]; w.data == nil {
			near = append(near, w.name)
		} else {
			far = append(far, w.name)
		}
	}
	messages := Path{What: "messages", Workers: append(near[:len(near):len(near)], far...), By: "the dispatcher forwards them"}
	tcp := "the client reached the dispatcher over TCP: run it on the dispatcher's host, with the path of its socket"
	if c.conn.Features().Files {
		tcp = "the worker joined the dispatcher over TCP, as one of another host"
	}
	switch {
	case c.own != nil:
		messages.By = "a queue of their own in shared memory"
		if len(t.workers) > 1 {
			messages.By += " with " + t.workers[0].name + ", which passes them on"
		}
	case c.refused != nil:
		messages.Why = fmt.Sprintf("the queue that the worker offered could not be used: %v", c.refused)
	case len(far) > 0:
		messages.Why = tcp
	default:
		messages.Why = "the workers offered no queue, as their log says"
	}
	out := []Path{messages}
	if len(near) > 0 {
		out = append(out, Path{What: "tensors", Workers: near, By: "shared memory"})
	}
	if len(far) > 0 {
		out = append(out, Path{What: "tensors", Workers: far, By: "TCP, a connection of their own", Why: tcp})
	}
	return out
}
