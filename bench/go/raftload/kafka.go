package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

type kafkaLane struct{ client *kgo.Client }

// connectKafka opens a client that batches as it does by default; all in-sync replicas acknowledge. The topic is made
// by the broker, as it is set up.
func connectKafka(endpoints string) (putter, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(endpoints, ",")...), kgo.DefaultProduceTopic("load"),
		kgo.AllowAutoTopicCreation(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return nil, err
	}
	return &kafkaLane{client}, nil
}

func (lane *kafkaLane) put(ctx context.Context, _ string, value []byte) error {
	return lane.client.ProduceSync(ctx, kgo.SliceRecord(value)).FirstErr()
}

func (lane *kafkaLane) close() { lane.client.Close() }
