//go:build programs

// Package programs names the program that is built from this module, so that go.mod keeps what it needs.
package programs

import _ "go.etcd.io/etcd/server/v3"
