// The NATS server, unchanged: a module of its own, so that go.sum pins what is measured.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("nats", flag.ExitOnError)
	options, err := server.ConfigureOptions(flags, os.Args[1:], nil, nil, nil)
	if err == nil {
		var started *server.Server
		if started, err = server.NewServer(options); err == nil {
			started.ConfigureLogger()
			err = server.Run(started)
			started.WaitForShutdown()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
