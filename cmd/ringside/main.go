// Command ringside trains models, runs clusters and measures them. See `ringside help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/cmd/ringside/command"
	"github.com/ringside-go/ringside/net/tcp"
)

func main() {
	tcp.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(command.Main(ctx, command.NewRootCommand()))
}
