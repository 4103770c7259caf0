package command

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
or the bits per byte of a language model, as train does in the end. It warns of other data than a checkpoint's run learnt from. It runs through a dispatcher if one runs, else in this process.

  ringside eval --load model.safetensors
  ringside eval --load run --data book.txt --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := weights.find()
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("data") {
				if path, err = dataOfRun(weights.load); err != nil {
					return err
				}
			}
			d, err := loadData(m, path)
			if err != nil {
				return err
			}
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
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: judged on other data than the run in %s learnt from: %s; that was %s\n", weights.load, e.Data, e.TrainedOn)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(tw, "model\t%s, %d parameters\nweights\t%s\ndata\t%s\nengine\t%s\nloss\t%.4f\n", e.Model, e.Parameters, e.Weights, e.Data, e.Engine, e.HeldOut)
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
	f.StringVar(&path, "data", "", "folder of images in IDX files, or a file or folder of text (default: that of a checkpoint's run, else as for train)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	at.whereFlags(f)
	return c
}

// dataOfRun returns where the data of the run is whose checkpoint is at path; empty for
// weights that are none, and for data that needs no --data.
func dataOfRun(path string) (string, error) {
	from, err := train.DataOf(path)
	if err != nil || from == "" {
		return "", err
	}
	if _, err := os.Stat(from); err != nil {
		return "", fmt.Errorf("--data is needed: the run in %s learnt from %s, which is not there: %w", path, from, err)
	}
	return from, nil
}
