package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/train"
)

// generated is what generate --json prints.
type generated struct {
	Model   string  `json:"model"`
	Engine  string  `json:"engine"`
	Weights string  `json:"weights"`
	Prompt  string  `json:"prompt"`
	Text    string  `json:"text"` // that follows the prompt
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Stopped bool    `json:"stopped"` // by an interrupt
}

// maxGenerate bounds a text, as train does its samples.
const maxGenerate = 1 << 20

// weightFlags are the flags of commands that use weights.
type weightFlags struct {
	load, model string
}

// find returns the model of the flags.
func (f *weightFlags) find() (*train.Model, error) {
	if f.load == "" {
		return nil, usagef("--load FILE is needed: weights of train --save, or a folder of train --checkpoint")
	}
	if f.model != "" {
		m, err := train.Find(f.model)
		if err != nil {
			return nil, usagef("--model: %v", err)
		}
		// Errors of files that are none come with their use.
		if is, err := train.ModelOf(f.load); err == nil && is.Name != m.Name {
			return nil, usagef("--model %s: %s holds weights of %s; leave --model out", m.Name, plain.Name(f.load), is.Name)
		}
		return m, nil
	}
	m, err := train.ModelOf(f.load)
	if errors.Is(err, train.ErrModel) {
		// The weights of a table's model are of no model in the list.
		if _, none := train.FormOf(f.load); none == nil {
			return nil, fmt.Errorf("--load: %w", err)
		}
		return nil, fmt.Errorf("--load: %w; if it is one of these, say so with --model", err)
	}
	if err != nil {
		return nil, withPlace("--load", f.load, err)
	}
	return m, nil
}

// add adds the flags to a command.
func (f *weightFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.load, "load", "", "weights: a safetensors file, a folder with a model.safetensors, or else a checkpoint's folder")
	c.Flags().StringVar(&f.model, "model", "", "which model they are of (default: as the file says)")
}

func newGenerate() *cobra.Command {
	var (
		weights weightFlags
		prompt  string
		bytes   int
		o       model.Sampling
		asJSON  bool
		at      = place{orHere: true}
	)
	c := &cobra.Command{
		Use:   "generate",
		Short: "have a trained language model continue a text",
		Long: `Generate prints a prompt and, byte by byte as they come, what a language model that train has saved writes after it. It runs
through a dispatcher if one runs, else in this process. An interrupt ends the text, with status 130.

  ringside train --checkpoint run --save model.safetensors
  ringside generate --load run --prompt "The rays of light "
  ringside generate --load model.safetensors --prompt "The " --bytes 80 \
    --temperature 0
  ringside generate --load run --prompt "The " --temperature 0.9 --top-k 0 \
    --top-p 0.95 --seed 7 --json

With the same seed, weights and processor the text is the same.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case prompt == "":
				return usagef("--prompt TEXT is needed: what the text goes on from")
			case bytes < 1 || bytes > maxGenerate:
				return usagef("--bytes %d: expected 1 to %d", bytes, maxGenerate)
			case !(o.Temperature >= 0) || math.IsInf(o.Temperature, 0):
				return usagef("--temperature %v: expected 0 or more", o.Temperature)
			case o.TopK < 0:
				return usagef("--top-k %d: expected 1 or more, or 0 for all", o.TopK)
			case !(o.TopP > 0 && o.TopP <= 1):
				return usagef("--top-p %v: expected above 0 and at most 1", o.TopP)
			}
			m, err := weights.find()
			if err != nil {
				return err
			}
			if m.Data != "text" {
				return usagef("--load %s: %s learns from %s and writes no text; ringside eval says how good it is", weights.load, m.Name, m.Data)
			}
			ctx := cmd.Context()
			sess, err := at.open(ctx, cmd)
			if err != nil {
				return err
			}
			defer sess.close()
			out := generated{Model: m.Name, Engine: sess.Engine().Name(), Weights: weights.load, Prompt: prompt}
			shown := io.Discard
			if !asJSON {
				shown = cmd.OutOrStdout()
			}
			text := textWriter{w: shown}
			var all []byte
			begin := time.Now()
			for b, err := range m.Continue(ctx, sess.Session, weights.load, []byte(prompt), bytes, o) {
				if err != nil && ctx.Err() != nil {
					out.Stopped = true
					break
				}
				if err != nil {
					return errors.Join(text.end(), err)
				}
				if len(all) == 0 { // the weights fit
					text.rest = []byte(prompt)
				}
				all = append(all, b)
				if err := text.add(b); err != nil {
					return err
				}
			}
			if err := text.end(); err != nil {
				return err
			}
			if asJSON {
				out.Bytes, out.Text, out.Seconds = len(all), strings.ToValidUTF8(string(all), "\uFFFD"), time.Since(begin).Seconds()
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(&out); err != nil {
					return err
				}
			}
			if out.Stopped {
				return interrupted(ctx, "")
			}
			return nil
		},
	}
	weights.add(c)
	f := c.Flags()
	f.StringVar(&prompt, "prompt", "", "text to go on from, such as --prompt \"The \"")
	f.IntVarP(&bytes, "bytes", "n", 300, "how many bytes to write")
	f.Float64Var(&o.Temperature, "temperature", 0.7, "above 1 for more surprise, below for less; 0 takes the most likely byte")
	f.IntVar(&o.TopK, "top-k", 40, "choose among so many of the most likely bytes; 0: all")
	f.Float64Var(&o.TopP, "top-p", 1, "choose among the most likely bytes that together have this probability")
	f.Uint64Var(&o.Seed, "seed", 0, "of the choices")
	f.BoolVar(&asJSON, "json", false, "print one JSON object in the end instead of the text as it comes")
	at.whereFlags(f)
	return c
}

// textWriter writes a text that comes byte by byte for people to read, each character as
// soon as it is whole.
type textWriter struct {
	w     io.Writer
	rest  []byte // of a character that is not whole
	begun bool
}

// add writes the characters that end with the bytes.
func (t *textWriter) add(bytes ...byte) error {
	t.rest, t.begun = append(t.rest, bytes...), true
	var b strings.Builder
	for utf8.FullRune(t.rest) {
		r, n := utf8.DecodeRune(t.rest)
		b.WriteRune(r)
		t.rest = t.rest[n:]
	}
	_, err := io.WriteString(t.w, printable(b.String()))
	return err
}

// end writes what is left, and the end of the line, if there was a text.
func (t *textWriter) end() error {
	if !t.begun {
		return nil
	}
	_, err := io.WriteString(t.w, strings.ToValidUTF8(string(t.rest), "\uFFFD")+"\n")
	return err
}
