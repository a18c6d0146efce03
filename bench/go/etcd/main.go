// The etcd server, unchanged: a module of its own, so that go.sum pins what is measured.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
