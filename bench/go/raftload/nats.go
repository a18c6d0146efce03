package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream       = "load"
	streamCopies = 3
	patience     = 30 * time.Second
)

type natsLane struct {
	link   *nats.Conn
	stream jetstream.JetStream
}

// connectNats opens a connection, and sees that there is a stream with three copies in files.
func connectNats(endpoint string) (putter, error) {
	link, err := nats.Connect(endpoint)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(link)
	if err != nil {
		return nil, err
	}
	wanted := jetstream.StreamConfig{Name: stream, Subjects: []string{stream}, Replicas: streamCopies}
	// A cluster that has just started has nobody yet who would place it.
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err = js.CreateOrUpdateStream(ctx, wanted)
		cancel()
		if err == nil || time.Since(begun) > patience {
			return &natsLane{link, js}, err
		}
	}
}

func (lane *natsLane) put(ctx context.Context, _ string, value []byte) error {
	_, err := lane.stream.Publish(ctx, stream, value)
	return err
}

func (lane *natsLane) close() { lane.link.Close() }
