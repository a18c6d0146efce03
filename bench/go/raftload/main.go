// A load of puts on a replicated log: `clients` goroutines, each sends one put and waits for its answer, over
// `connections` connections. One program for all targets, so that they pay the same for being asked.
//
// Prints one JSON object. Latencies are of the measured part only; what fails is counted, never retried.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// putter is one connection to a target. put is called by many goroutines at a time.
type putter interface {
	put(ctx context.Context, key string, value []byte) error
	close()
}

type report struct {
	Operations int     `json:"operations"`
	Failures   int     `json:"failures"`
	FirstError string  `json:"firstError,omitempty"`
	Rate       float64 `json:"rate"`
	P50        float64 `json:"p50us"`
	P99        float64 `json:"p99us"`
	P999       float64 `json:"p999us"`
	Max        float64 `json:"maxus"`
}

type tally struct {
	latencies []time.Duration
	failures  int
	err       error
}

// Few, so that it is the log that is measured and not the state that it builds.
const keys = 1_000

func main() {
	target := flag.String("target", "node", "etcd, kafka, nats, node or rocketmq")
	endpoint := flag.String("endpoint", "", "host:port of the leader; kafka: of all brokers; rocketmq: of the name servers")
	clients := flag.Int("clients", 1, "puts under way at a time")
	connections := flag.Int("connections", 1, "connections that they share")
	size := flag.Int("size", 64, "bytes of a value")
	warmup := flag.Duration("warmup", time.Second, "not measured")
	measure := flag.Duration("measure", 5*time.Second, "measured")
	count := flag.Int("count", 0, "end after so many puts, if not 0")
	flag.Parse()
	if err := run(*target, *endpoint, *clients, *connections, *size, *warmup, *measure, *count); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(target, endpoint string, clients, connections, size int, warmup, measure time.Duration, count int) error {
	connect := map[string]func(string) (putter, error){
		"etcd": connectEtcd, "kafka": connectKafka, "nats": connectNats, "node": connectNode, "rocketmq": connectRocketmq,
	}[target]
	if connect == nil {
		return fmt.Errorf("no target is called %q", target)
	}
	var lanes []putter
	for range connections {
		lane, err := connect(endpoint)
		if err != nil {
			return err
		}
		defer lane.close()
		lanes = append(lanes, lane)
	}
	begin := time.Now().Add(warmup)
	end := begin.Add(measure)
	share := 0
	if count > 0 {
		share = max(1, count/clients)
	}
	tallies := make([]tally, clients)
	var all sync.WaitGroup
	for number := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			drive(lanes[number%connections], number, size, begin, end, share, &tallies[number])
		}()
	}
	all.Wait()
	return json.NewEncoder(os.Stdout).Encode(sum(tallies, min(measure, time.Since(begin))))
}

// drive is one client: a put, its answer, the next put.
func drive(lane putter, number, size int, begin, end time.Time, share int, seen *tally) {
	value := make([]byte, size)
	for at := range value {
		value[at] = byte('a' + (at+number)%26)
	}
	ctx := context.Background()
	for round := 0; share == 0 || round < share; round++ {
		key := fmt.Sprintf("key-%012d", (number+round*7919)%keys)
		sent := time.Now()
		if sent.After(end) {
			return
		}
		err := lane.put(ctx, key, value)
		answered := time.Now()
		if err != nil {
			seen.failures++
			seen.err = err
			if seen.failures > 100 {
				return
			}
		} else if answered.After(begin) && answered.Before(end) {
			seen.latencies = append(seen.latencies, answered.Sub(sent))
		}
	}
}

func sum(tallies []tally, measured time.Duration) report {
	var all []time.Duration
	var out report
	for _, each := range tallies {
		all = append(all, each.latencies...)
		out.Failures += each.failures
		if each.err != nil {
			out.FirstError = each.err.Error()
		}
	}
	slices.Sort(all)
	out.Operations = len(all)
	out.Rate = float64(len(all)) / measured.Seconds()
	if len(all) > 0 {
		at := func(share float64) float64 {
			return float64(all[min(len(all)-1, int(share*float64(len(all))))].Nanoseconds()) / 1000
		}
		out.P50, out.P99, out.P999, out.Max = at(0.5), at(0.99), at(0.999), at(1)
	}
	return out
}
