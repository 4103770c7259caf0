package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/train"
)

func newEval() *cobra.Command {
	var (
		weights weightFlags
		path    string
		asJSON  bool
		at      = place{orHere: true}
	)
	c := &cobra.Command{
		Use:   "eval",
		Short: "evaluate a trained model on data that was held out",
		Long: `Eval prints how a model that train has saved does on the held-out part of its data: the loss, and the accuracy of a classifier
or the bits per byte of a language model, as train does in the end. It takes the data that the weights learnt from, and warns of other data. It runs through a dispatcher if one runs, else in this process.

  ringside eval --load model.safetensors
  ringside eval --load run --data book.txt --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := weights.find()
			if err != nil {
				return err
			}
			if err := checkLoaded(cmd.Context(), m, weights.load); err != nil {
				return err
			}
			d, gone, err := evalData(m, weights.load, path)
			if err != nil {
				return err
			}
			sayHeld(cmd.ErrOrStderr(), m, d)
			sess, err := at.open(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			defer sess.close()
			e, err := m.Evaluate(cmd.Context(), sess.Session, d, weights.load)
			if err != nil {
				return err
			}
			if e.TrainedOn != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: judged on other data than the run that wrote %s learnt from: %s; that was %s%s\n", cell(weights.load), cell(e.Data), cell(e.TrainedOn), gone)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(tw, "model\t%s, %d parameters\nweights\t%s\ndata\t%s\nengine\t%s\nheld-out loss\t%.4f\n", e.Model, e.Parameters, cell(e.Weights), cell(e.Data), e.Engine, e.HeldOut)
			if e.Accuracy != nil {
				fmt.Fprintf(tw, "test accuracy\t%.2f %%\n", 100**e.Accuracy)
			}
			if e.BitsPerByte != nil {
				fmt.Fprintf(tw, "held out\t%.3f bits per byte\n", *e.BitsPerByte)
			}
			return tw.Flush()
		},
	}
	weights.add(c)
	f := c.Flags()
	f.StringVar(&path, "data", "", "folder of images in IDX files, or a file or folder of text (default: what the weights learnt from, if they say it, else as for train)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	at.whereFlags(f)
	return c
}

// evalData loads the data at path, or if that is empty the data that the weights at load
// learnt from. If that is not there, weights in a file are judged on what train takes
// without --data, and gone is to be added to the warning.
func evalData(m *train.Model, load, path string) (d train.Data, gone string, err error) {
	from := ""
	if path == "" {
		if from, err = train.DataOf(load); err != nil {
			return nil, "", err
		}
	}
	missing := error(nil)
	if from != "" {
		_, missing = os.Stat(from)
	}
	if missing == nil {
		d, err = loadData(m, cmp.Or(path, from))
		return d, "", err
	}
	kept, err := checkpoint.Open(load)
	if err == nil {
		err = errors.Join(missing, kept.Close())
	} else {
		d, err = loadData(m, "")
	}
	if err != nil {
		return nil, "", fmt.Errorf("--data is needed: the run that wrote %s learnt from %s, which is not there: %w", plain.Name(load), plain.Name(from), plain.Path(err))
	}
	return d, ", which is not there; --data says where it is", nil
}
