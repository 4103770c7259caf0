// Command language trains a small language model on the bytes of a text and lets it
// write. Without an argument it takes a text that comes with Go.
//
//	go run . -steps 200
//	go run . -steps 2000 -prompt "It is " book.txt
//
// It runs in this process, or on a worker while `ringside up` runs. Ctrl-C ends the
// training and keeps what it has with -checkpoint DIR.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

func main() {
	o := train.Options{LossEvery: 10}
	flag.IntVar(&o.Steps, "steps", 200, "optimizer steps")
	flag.StringVar(&o.Prompt, "prompt", "", "text that the model goes on with")
	flag.StringVar(&o.Checkpoint, "checkpoint", "", "folder in which the run is kept")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: language [flags] [book.txt]\nWithout a file or folder of text it takes a text that comes with Go. Flags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 1 {
		fmt.Fprintf(os.Stderr, "language: %q, expected one file or folder of text behind the flags\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), &o); err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, o *train.Options) error {
	model, err := train.Find("qwen3-tiny")
	if err != nil {
		return err
	}
	text, err := model.Load(path)
	if err != nil {
		return err
	}
	// The session has a context of its own: ctx ends the training between two steps.
	sess, err := client.Open(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	fmt.Println("it trains on", sess.Engine().Name())
	o.Progress = func(p train.Progress) {
		fmt.Printf("step %d of %d: loss %.3f, %.0f %s a second\n", p.Step, p.Steps, p.Loss, p.Rate, p.Unit)
	}
	sum, err := model.Train(ctx, sess, text, o)
	if err != nil {
		return err
	}
	if sum.Stopped {
		fmt.Printf("stopped after %d steps\n", sum.Steps)
	} else {
		fmt.Printf("%.2f bits per byte of text that it has not seen; it writes: %q\n", *sum.BitsPerByte, sum.Sample)
	}
	if sum.Checkpoint != "" {
		fmt.Printf("saved %q\n", sum.Checkpoint)
	}
	return nil
}
