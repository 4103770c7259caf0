package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/shm/plain"
)

// exported is what export --json prints.
type exported struct {
	Model string   `json:"model"`
	Files []string `json:"files"`
}

func newExport() *cobra.Command {
	var (
		weights weightFlags
		to      string
		asJSON  bool
	)
	c := &cobra.Command{
		Use:   "export",
		Short: "write a trained model's weights for other programs",
		Long: `Export writes the weights of a checkpoint, or those that train --save has saved, to a folder: model.safetensors and, of a
language model, the config.json with which loaders of other libraries take the folder for a published model. With a
name that ends in .safetensors it writes that file, and no config.json unless it is named model.safetensors. The folder is made
if it is not there. The files don't say where the data of the run is. Files of an export before are replaced, another program's model.safetensors and config.json are not.

  ringside train --checkpoint run
  ringside export --load run --to published
  ringside export --load run --to weights.safetensors`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("--to FOLDER is needed, or a file whose name ends in .safetensors")
			}
			m, err := weights.find()
			if err != nil {
				return err
			}
			sess, err := here()
			if err != nil {
				return err
			}
			defer sess.close()
			files, err := m.Export(cmd.Context(), sess.Session, weights.load, to)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(&exported{m.Name, files})
			}
			for _, f := range files {
				fmt.Fprintln(cmd.OutOrStdout(), plain.Name(f))
			}
			return nil
		},
	}
	weights.add(c)
	c.Flags().StringVar(&to, "to", "", "folder for model.safetensors and config.json, or a file whose name ends in .safetensors")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
