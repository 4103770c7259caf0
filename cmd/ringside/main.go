// Command ringside trains models, runs clusters and measures them. See `ringside help`.
package main

import (
	"context"
	"os"

	"github.com/ringside-go/ringside/cmd/ringside/command"
)

func main() {
	ctx := command.StopContext(context.Background())
	os.Exit(command.Main(ctx, command.NewRootCommand()))
}
