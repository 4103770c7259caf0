// Command ringside trains models, runs clusters and measures them. See `ringside help`.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/ringside-go/ringside/cmd/ringside/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), command.StopSignals()...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(command.Main(ctx, command.NewRootCommand()))
}
