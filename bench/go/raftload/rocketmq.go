package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	"github.com/sirupsen/logrus"
)

var lanes atomic.Int32

type rocketmqLane struct{ producer rocketmq.Producer }

// connectRocketmq starts a producer of the stock client, which finds the leader by the name servers given.
func connectRocketmq(nameServers string) (putter, error) {
	logrus.SetOutput(io.Discard)
	rlog.SetLogLevel("fatal")
	name := fmt.Sprintf("load-%d", lanes.Add(1))
	started, err := rocketmq.NewProducer(
		producer.WithNameServer(strings.Split(nameServers, ";")), producer.WithGroupName(name),
		producer.WithInstanceName(name), producer.WithRetry(0),
	)
	if err == nil {
		err = started.Start()
	}
	lane := &rocketmqLane{started}
	if err == nil {
		// Of many first sends at a time the client lets all but one fail, because they find no route yet.
		err = lane.put(context.Background(), "", []byte("first"))
	}
	return lane, err
}

func (lane *rocketmqLane) put(ctx context.Context, _ string, value []byte) error {
	answer, err := lane.producer.SendSync(ctx, primitive.NewMessage("Bench", value))
	if err == nil && answer.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", answer.Status)
	}
	return err
}

func (lane *rocketmqLane) close() { _ = lane.producer.Shutdown() }
