package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type etcdLane struct{ client *clientv3.Client }

// connectEtcd opens one gRPC connection of the stock client.
func connectEtcd(endpoint string) (putter, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return &etcdLane{client}, nil
}

func (lane *etcdLane) put(ctx context.Context, key string, value []byte) error {
	_, err := lane.client.Put(ctx, key, string(value))
	return err
}

func (lane *etcdLane) close() { lane.client.Close() }
