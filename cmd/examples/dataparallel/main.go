// Command dataparallel is the ranks of a training run without a dispatcher: each computes
// the gradients of its own rows in a session of its own, and all take their mean.
//
//	go build && ringside run -n 4 -- ./dataparallel
//
// mpirun, torchrun and srun start it as well (docs/launch.md), on several hosts too. With
// -checkpoint it goes on where a run that was ended left off, bit for bit.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

const rows = 64 // of a batch, on all ranks together

var (
	steps  = flag.Int("steps", 200, "how many steps to train")
	folder = flag.String("checkpoint", "", "keep the run in this folder, and go on from there")
	every  = flag.Int("every", 100, "steps between two lines with the loss, and between two checkpoints")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted, %s: %w", kept(), err)
		}
		fmt.Fprintln(os.Stderr, "dataparallel:", err)
		os.Exit(1)
	}
}

// kept says what is left of a run that was interrupted.
func kept() string {
	if *folder == "" {
		return "nothing was kept (-checkpoint DIR keeps a run that can go on)"
	}
	return "the same command goes on from the checkpoint in " + *folder
}

func run(ctx context.Context) error {
	if flag.NArg() > 0 || *steps < 1 || *every < 1 {
		return errors.New("expected -steps and -every of at least 1, and no arguments")
	}
	g, err := collective.Init(ctx, nil)
	if err != nil {
		return err
	}
	defer g.Close()
	if rows%g.Size() != 0 {
		return fmt.Errorf("%d ranks do not divide %d rows", g.Size(), rows)
	}
	sess, err := cpu.NewSession(nil, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	t, err := newTraining(ctx, sess, g)
	if err != nil {
		return err
	}
	if err := t.restore(ctx); err != nil {
		return err
	}
	begin, first, last := t.opt.Steps(), 0.0, 0.0
	for n := begin; n < *steps; n++ {
		loss, err := t.step(ctx)
		if err != nil {
			return err
		}
		ends := n+1 == *steps || (n+1)%*every == 0
		if n == begin || ends {
			if last, err = loss.Item(); err != nil {
				return err
			}
			if n == begin {
				first = last
			}
		}
		loss.Free()
		if ends {
			// The digits of a float32 tell all its bits, so that runs can be compared.
			fmt.Printf("rank %d: step %d of %d: loss of its rows %v\n", g.Rank(), n+1, *steps, float32(last))
			if err := t.save(ctx); err != nil {
				return err
			}
		}
	}
	sum, err := t.compare(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("rank %d of %d: from step %d: loss of its rows %.3f, then %.3f; the same weights on all ranks: %s\n",
		g.Rank(), g.Size(), begin, first, last, sum)
	return nil
}

// training is one rank's part of it.
type training struct {
	sess     *tensor.Session
	g        *collective.Group
	net      nn.Sequential
	params   []tensor.Named
	parallel *nn.DataParallel
	opt      *optim.AdamW
}

// newTraining makes the network. All ranks begin with rank 0's weights.
func newTraining(ctx context.Context, sess *tensor.Session, g *collective.Group) (*training, error) {
	t := &training{sess: sess, g: g}
	t.net = nn.Sequential{nn.NewLinear(sess, 2, 32, true), nn.GELU(), nn.NewLinear(sess, 32, 1, true)}
	t.params = t.net.Params()
	t.opt = optim.NewAdamW(t.params, optim.AdamWOptions{LR: 1e-2})
	var err error
	t.parallel, err = nn.NewDataParallel(ctx, g, t.net)
	return t, err
}

// step takes one step and returns the loss of this rank's rows.
func (t *training) step(ctx context.Context) (loss *tensor.Tensor, err error) {
	mine := rows / t.g.Size()
	t.sess.Scope(func(sc *tensor.Scope) {
		// Every rank draws the whole batch and takes its rows of it.
		x := tensor.RandN(t.sess, tensor.F32, rows, 2).Narrow(0, t.g.Rank()*mine, mine)
		y := x.Sin().Sum(1).Unsqueeze(1)
		loss = sc.Keep(nn.MSE(t.net.Forward(x), y))
		var grads []*tensor.Tensor
		if grads, err = autograd.Grad(loss, nn.Tensors(t.params)...); err != nil {
			return
		}
		if err = t.parallel.Average(ctx, grads); err == nil {
			err = t.opt.Step(grads)
		}
	})
	return loss, err
}

// restore goes on from the checkpoint, if there is one. All ranks have read it before any
// of them ends a step, so none finds a later one.
func (t *training) restore(ctx context.Context) error {
	if *folder == "" {
		return nil
	}
	c, err := checkpoint.Open(*folder)
	if errors.Is(err, checkpoint.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	var seed, counter uint64
	if _, err := fmt.Sscan(c.Notes["random"], &seed, &counter); err != nil {
		return fmt.Errorf("%s: the note random is %q, expected two numbers: %w", *folder, c.Notes["random"], err)
	}
	t.sess.SetRandom(seed, counter)
	t.opt.SetSteps(int(c.Step))
	return c.Restore(ctx, t.tensors())
}

// save keeps what the next steps depend on. It is the same on all ranks, so rank 0 does.
func (t *training) save(ctx context.Context) error {
	if *folder == "" || t.g.Rank() != 0 {
		return nil
	}
	seed, counter := t.sess.Random()
	return checkpoint.Save(ctx, t.sess, *folder, t.tensors(), &checkpoint.Options{
		Step:  uint64(t.opt.Steps()),
		Notes: map[string]string{"random": fmt.Sprint(seed, " ", counter)},
	})
}

// tensors returns the parameters and the optimizer's state.
func (t *training) tensors() []tensor.Named {
	return append(t.params[:len(t.params):len(t.params)], t.opt.State()...)
}

// compare returns the hash of the weights, which is the same on all ranks.
func (t *training) compare(ctx context.Context) (string, error) {
	h := sha256.New()
	for _, p := range t.params {
		v, err := tensor.Data[float32](p.T)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%x", v) // all bits of each
	}
	sum := hex.EncodeToString(h.Sum(nil))
	sums, err := collective.AllGatherObject(ctx, t.g, sum)
	if err != nil {
		return "", err
	}
	for r, v := range sums {
		if v != sum {
			return "", fmt.Errorf("rank %d has other weights than rank %d: their hashes are %s and %s", r, t.g.Rank(), v, sum)
		}
	}
	return sum, nil
}
