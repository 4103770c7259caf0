package command

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// readConfig reads a config of workers and signals.
func readConfig(file string) (*config.Config, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", plain.Path(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--config: %s is no regular file, expected a YAML file as docs/sharding.md describes", plain.Name(file))
	}
	if info.Size() > config.MaxBytes {
		return nil, fmt.Errorf("--config: %s has %d bytes, expected at most %d", plain.Name(file), info.Size(), config.MaxBytes)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", plain.Path(err))
	}
	return config.Parse(file, b)
}

// several reports whether a plan for several workers is asked for.
func (o *dumpOptions) several() bool { return o.workers != "" || o.config != "" || o.auto }

// placed is the config that the flags name.
func (o *dumpOptions) placed() (*config.Config, error) {
	c := config.DataParallel(0)
	if o.auto {
		c = &config.Config{}
	}
	if o.config != "" {
		var err error
		if c, err = readConfig(o.config); err != nil {
			return nil, err
		}
	}
	c.AutoShard = c.AutoShard || o.auto
	switch {
	case o.workers != "" && o.config != "":
		return nil, usagef("--config and --workers exclude each other: the file says how many workers there are")
	case o.workers != "":
		m, err := shard.ParseMesh(o.workers)
		if err != nil {
			return nil, usagef("--workers %s: expected a number such as 4 or two such as 2x2, of %d workers at most", o.workers, shard.MaxRanks)
		}
		c.Mesh = m
	case o.config == "":
		return nil, usagef("--auto-shard needs --workers, a number such as 4 or two such as 2x2")
	}
	return c, c.Check()
}

// sharded prints how p runs on several workers.
func (o *dumpOptions) sharded(w io.Writer, p *tensor.Program) error {
	c, err := o.placed()
	if err != nil {
		return err
	}
	if err := c.CheckProgram(p); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Signals, func(g tensor.Signal) bool { return c.Unfuses(g.Name) }) {
		p = p.Clone()
		p.Unfused = true
	}
	hints, stages := c.Hints(), c.Stages()
	m := stages[0].Mesh
	why := hints.Explain(p, m)
	inputs, err := shard.Place(p, m, hints)
	if err != nil {
		return err
	}
	options := &shard.Options{Signals: hints, Parts: c.Exact}
	var plan *shard.Plan
	if len(stages) > 1 {
		if c.AutoShard {
			return usagef("auto_shard chooses nothing where there are stages; leave it out, or workers of signals")
		}
		plan, err = staged(p, c, options)
		why += stageWords(c)
	} else {
		if c.AutoShard {
			chosen, err := shard.Auto(p, m, &shard.AutoOptions{Signals: hints})
			if err != nil {
				return err
			}
			inputs, why = chosen.Inputs, why+chosen.Why
		}
		plan, err = shard.Rewrite(p, m, inputs, options)
	}
	if err != nil {
		return err
	}
	ways := ""
	if o.hosts > len(plan.Ranks) {
		return usagef("--hosts %d: expected at most one for each of %d workers", o.hosts, len(plan.Ranks))
	}
	if o.device == "cuda" || o.hosts > 0 {
		ways = "edges\n" + edges(plan, max(o.hosts, 1), o.device == "cuda") + "\n"
	}
	_, err = fmt.Fprintf(w, "layouts\n%s\n%s\n%ssteps\n%v", why, plan.Explain(), ways, plan)
	return err
}

// staged returns the plan for a config with several stages. Inputs lie as the meshes of
// the stages that read them have it.
func staged(p *tensor.Program, c *config.Config, o *shard.Options) (*shard.Plan, error) {
	var stages []shard.Stage
	for _, s := range c.Stages() {
		stages = append(stages, shard.Stage{Mesh: s.Mesh, Ranks: s.Workers})
	}
	return shard.PlaceStages(p, stages, c.StageOf(), nil, o)
}

// stageWords says which signals run where.
func stageWords(c *config.Config) string {
	var lines []string
	for g, k := range c.StageOf() {
		lines = append(lines, fmt.Sprintf("%v runs on stage %d\n", g, k))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
