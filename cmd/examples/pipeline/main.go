// Command pipeline trains a language model whose layers are on two stages, a worker each.
// A batch is cut in pieces, so that one stage works on a piece while the other has the
// next one.
//
//	go run . -steps 50
//
// The weights are those of one worker that takes the same pieces one after the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

const (
	stages = 2
	pieces = 4
)

func main() {
	steps := flag.Int("steps", 50, "training steps")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: pipeline [flags] [book.txt]\nWithout a file or folder of text it takes a text that comes with Go. Flags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 1 {
		fmt.Fprintf(os.Stderr, "pipeline: %q, expected one file or folder of text behind the flags\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *steps); err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, steps int) error {
	model, err := train.Find("qwen3-tiny")
	if err != nil {
		return err
	}
	text, err := model.Load(path)
	if err != nil {
		return err
	}
	// Adjacent layers are a stage; the stages have about the same work.
	conf, err := model.StageConfig(stages, 1)
	if err != nil {
		return err
	}
	conf.MicroBatches = pieces
	// Cluster and session have a context of their own: ctx ends the training between two
	// steps.
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: stages, InProcess: true})
	if err != nil {
		return err
	}
	defer c.Close()
	engine, err := client.Dial(context.WithoutCancel(ctx), c.Addr(), &client.Options{Config: conf})
	if err != nil {
		return err
	}
	sess := tensor.NewSession(engine, nil)
	defer sess.Close()
	sum, err := model.Train(ctx, sess, text, &train.Options{
		Steps: steps, MicroBatches: pieces, StageOf: conf.StageFor, NameParams: true, Sample: -1, LossEvery: 10,
		Progress: func(p train.Progress) { fmt.Printf("step %d of %d: loss %.3f\n", p.Step, p.Steps, p.Loss) },
	})
	if err != nil {
		return err
	}
	if sum.Stopped {
		fmt.Printf("stopped after %d steps\n", sum.Steps)
		return nil
	}
	fmt.Printf("%.2f bits per byte after %d steps on %d stages\n", *sum.BitsPerByte, sum.Steps, stages)
	return nil
}
