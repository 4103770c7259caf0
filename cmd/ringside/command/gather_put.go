package command

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/torch"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

func newGatherInit() *cobra.Command {
	var model, out, value, index string
	var known, asJSON bool
	config := codec.DefaultConfig()
	c := &cobra.Command{
		Use:   "init",
		Short: "write what the updates of a model look like",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if known {
				for _, name := range []string{"chunk", "topk", "bins", "dct", "index", "value"} {
					if cmd.Flags().Changed(name) {
						return usagef("--known and --%s exclude each other", name)
					}
				}
				config = codec.KnownConfig()
			} else if err := errors.Join(config.Value.UnmarshalText([]byte(value)), config.Index.UnmarshalText([]byte(index))); err != nil {
				return usagef("%v", err)
			}
			if model == "" {
				return usagef("--model: expected a safetensors file")
			}
			f, err := safetensors.Open(model)
			if err != nil {
				return err
			}
			defer f.Close()
			var tensors []codec.Tensor
			for _, t := range f.Tensors() {
				switch t.DType {
				case safetensors.F32, safetensors.F16, safetensors.BF16:
					tensors = append(tensors, codec.Tensor{Name: t.Name, Shape: t.Shape, DType: string(t.DType)})
				}
			}
			m, err := codec.NewManifest(config, tensors)
			if err != nil {
				return err
			}
			if err := writeJSON(out, m); err != nil {
				return err
			}
			summary := struct {
				Manifest   string       `json:"manifest"`
				Digest     codec.Digest `json:"digest"`
				Parameters int          `json:"parameters"`
				Elements   int64        `json:"elements"`
				Values     int64        `json:"values"`
				MaxBytes   int64        `json:"max_bytes"`
			}{out, m.Digest(), len(m.Params), m.Elements(), m.Values(), m.MaxPayload()}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(summary)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d parameters, %d elements; an update sends %d values (%s and %s)\n", plain.Name(out), len(m.Params), m.Elements(), m.Values(), config.Index, config.Value)
			return nil
		},
	}
	c.Flags().StringVar(&model, "model", "", "safetensors file of the model")
	c.Flags().StringVar(&out, "manifest", "manifest.json", "file to write")
	c.Flags().IntVar(&config.Chunk, "chunk", config.Chunk, "largest side of a chunk")
	c.Flags().IntVar(&config.TopK, "topk", config.TopK, "coefficients sent of each chunk")
	c.Flags().IntVar(&config.Bins, "bins", config.Bins, "levels of the codebook")
	c.Flags().BoolVar(&config.DCT, "dct", false, "send coefficients of a cosine transform")
	c.Flags().StringVar(&index, "index", config.Index.String(), "how indices are stored: rice, pack12, u16 or bitmap")
	c.Flags().StringVar(&value, "value", config.Value.String(), "how values are stored: u2, u4, u8, sign, bf16 or f32")
	c.Flags().BoolVar(&known, "known", false, "the known implementation's format, which put --torch needs: pack12, u8, 256 bins, 20 bits a value")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// putFlags are those of put.
type putFlags struct {
	storeFlags
	manifest, from, to, update, torch, residual, key string

	window, uid, step uint64
	beta              float64
	json              bool
}

func newGatherPut() *cobra.Command {
	var f putFlags
	c := &cobra.Command{
		Use:   "put",
		Short: "compress one peer's update and put it into the store",
		Long: `Put compresses an update, which is a safetensors file (--update), or the difference of a model before and after a
peer's steps (--from less --to), or takes one that is compressed (--torch), and puts it into the store for a window. A peer
that puts another one for the same window replaces it. With --residual what was not sent is kept in a file and added to the
next update.

A peer that signs has a key, and gives its public key, which put prints, to those that gather:

    (umask 077; openssl rand -hex 32 > key)
    ringside gather put --sign-key-file key ...`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := c.Flags()
	f.storeFlags.add(flags)
	f.storeFlags.addPeers(flags)
	flags.StringVar(&f.manifest, "manifest", "manifest.json", "what updates look like, from gather init")
	flags.StringVar(&f.update, "update", "", "safetensors file of the update")
	flags.StringVar(&f.torch, "torch", "", "file of torch.save with an update of the known implementation; the manifest is of init --known")
	flags.StringVar(&f.from, "from", "", "safetensors file of the model before")
	flags.StringVar(&f.to, "to", "", "safetensors file of the model after")
	flags.StringVar(&f.residual, "residual", "", "safetensors file that keeps what was not sent")
	flags.Float64Var(&f.beta, "beta", 0.95, "what is left of the residual when the next update is added to it")
	flags.StringVar(&f.key, "sign-key-file", "", "file with the ed25519 seed that signs the update, 64 hexadecimal digits, readable by you alone")
	flags.Uint64Var(&f.window, "window", 0, "number of the window")
	flags.Uint64Var(&f.uid, "uid", 0, "number of this peer")
	flags.Uint64Var(&f.step, "step", 0, "this peer's global step")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *putFlags) run(cmd *cobra.Command) error {
	ways := 0
	for _, way := range []bool{f.update != "", f.from != "" || f.to != "", f.torch != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 || (f.from == "") != (f.to == "") || f.torch != "" && f.residual != "" {
		return usagef("expected --update, or --from and --to, or --torch without --residual")
	}
	if err := given(cmd, "window", "uid"); err != nil {
		return err
	}
	if before, err := os.Stat(f.from); err == nil {
		if after, err := os.Stat(f.to); err == nil && os.SameFile(before, after) {
			return usagef("--from and --to are the same file, %s: expected the model before and after a peer's steps", plain.Name(f.from))
		}
	}
	m, err := readManifest(f.manifest)
	if err != nil {
		return err
	}
	o := codec.EncoderOptions{}
	if o.Key, err = readSeed(f.key); err != nil {
		return err
	}
	var e *codec.Encoder
	var p *codec.Payload
	if f.torch != "" {
		p, err = f.imported(m, o.Key)
	} else {
		e, p, err = f.encoded(m, &o)
	}
	if err != nil {
		return err
	}
	of, err := f.byPeer()
	if err != nil {
		return err
	}
	s, err := of(f.uid)
	if err != nil {
		return err
	}
	key := artifact.UpdateName(f.window, f.uid)
	if err := s.Put(cmd.Context(), key, bytes.NewReader(p.Bytes()), p.Size(), nil); err != nil {
		return err
	}
	if f.residual != "" {
		if err := f.saveResidual(e, m); err != nil {
			return err
		}
	}
	bits := float64(p.Size()) * 8 / float64(m.Values())
	signer := ""
	if o.Key != nil {
		signer = hex.EncodeToString(o.Key.Public().(ed25519.PublicKey))
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"key": key, "bytes": p.Size(), "digest": p.Digest, "bits_per_value": bits,
			"ratio": 4 * float64(m.Elements()) / float64(p.Size()), "public_key": signer})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, %.2f bits a value, 1/%.0f of float32\n", key, p.Size(), bits, 4*float64(m.Elements())/float64(p.Size()))
	if signer != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "signed; line for --peer-keys-file: %d %s\n", f.uid, signer)
	}
	return nil
}

// imported makes a payload of the file of --torch.
func (f *putFlags) imported(m *codec.Manifest, key ed25519.PrivateKey) (*codec.Payload, error) {
	in, err := os.Open(f.torch)
	if err != nil {
		return nil, fmt.Errorf("--torch: %w", plain.Path(err))
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, fmt.Errorf("--torch: %w", plain.Path(err))
	}
	p, err := torch.Import(in, info.Size(), m, f.window, f.uid, key)
	if err != nil {
		return nil, fmt.Errorf("--torch %s: %w", plain.Name(f.torch), err)
	}
	return p, nil
}

// encoded makes a payload of --update, or of --from and --to.
func (f *putFlags) encoded(m *codec.Manifest, o *codec.EncoderOptions) (*codec.Encoder, *codec.Payload, error) {
	if f.residual != "" {
		o.Beta = f.beta
	}
	e := codec.NewEncoder(m, o)
	if err := f.loadResidual(e, m); err != nil {
		return nil, nil, err
	}
	update, done, err := f.source(m)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	p, err := e.Encode(codec.Header{Window: f.window, UID: f.uid, Step: f.step}, update)
	return e, p, err
}

// source returns what fills in the update's parameters.
func (f *putFlags) source(m *codec.Manifest) (update func(p int, dst []float32) error, done func(), err error) {
	if f.update != "" {
		in, err := safetensors.Open(f.update)
		if err != nil {
			return nil, nil, err
		}
		return func(p int, dst []float32) error { return in.ReadFloat32(m.Params[p].Name, dst) }, func() { in.Close() }, nil
	}
	from, err := safetensors.Open(f.from)
	if err != nil {
		return nil, nil, err
	}
	to, err := safetensors.Open(f.to)
	if err != nil {
		from.Close()
		return nil, nil, err
	}
	update = func(p int, dst []float32) error {
		after := make([]float32, len(dst))
		if err := errors.Join(from.ReadFloat32(m.Params[p].Name, dst), to.ReadFloat32(m.Params[p].Name, after)); err != nil {
			return err
		}
		for i, v := range after {
			dst[i] -= v
		}
		return nil
	}
	return update, func() { from.Close(); to.Close() }, nil
}

func (f *putFlags) loadResidual(e *codec.Encoder, m *codec.Manifest) error {
	if f.residual == "" {
		return nil
	}
	in, err := safetensors.Open(f.residual)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for i := range m.Params {
		x := make([]float32, m.Params[i].Elements())
		if err := in.ReadFloat32(m.Params[i].Name, x); err != nil {
			return err
		}
		e.Residual()[i] = x
	}
	return nil
}

func (f *putFlags) saveResidual(e *codec.Encoder, m *codec.Manifest) error {
	var all []safetensors.Tensor
	for i, x := range e.Residual() {
		b, err := binary.Append(nil, binary.LittleEndian, x)
		if err != nil {
			return err
		}
		all = append(all, safetensors.Tensor{Name: m.Params[i].Name, DType: safetensors.F32, Shape: m.Params[i].Shape, Data: b})
	}
	return safetensors.WriteFile(f.residual, all, nil)
}
