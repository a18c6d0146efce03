// The stock Go client as a test program: one verb, a count of messages, one JSON line for each thing that happened.
//
//	program -nameserver 127.0.0.1:9876 -topic T -count 20 sync|async|oneway|batch|push|poll|keep
//
// keep sends with four threads and receives at the same time until its input ends, and tells all of it then.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	nameServer = flag.String("nameserver", "", "host:port of the name server")
	topic      = flag.String("topic", "", "topic to send to or receive from")
	group      = flag.String("group", "go-group", "producer or consumer group")
	tag        = flag.String("tag", "", "tag of sent messages, tag expression of received ones")
	size       = flag.Int("size", 100, "body bytes of each sent message")
	count      = flag.Int("count", 10, "messages to send, or to wait for")
	seconds    = flag.Int("seconds", 20, "how long to wait for them")
)

var output sync.Mutex

func say(line map[string]any) {
	output.Lock()
	defer output.Unlock()
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	flag.Parse()
	rlog.SetLogLevel("error")
	switch verb := flag.Arg(0); verb {
	case "sync", "async", "oneway", "batch":
		send(verb)
	case "push":
		push()
	case "poll":
		poll()
	case "keep":
		keep()
	default:
		check(fmt.Errorf("no such verb: %q", verb))
	}
}

func messages() []*primitive.Message {
	made := make([]*primitive.Message, *count)
	for i := range made {
		text := fmt.Sprintf("go-%d-", i)
		made[i] = primitive.NewMessage(*topic, []byte(text+strings.Repeat("x", max(0, *size-len(text)))))
		made[i].WithKeys([]string{fmt.Sprintf("go-key-%d", i)})
		if *tag != "" {
			made[i].WithTag(*tag)
		}
	}
	return made
}

func producing() rocketmq.Producer {
	client, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{*nameServer}),
		producer.WithGroupName(*group),
		producer.WithInstanceName(fmt.Sprint(time.Now().UnixNano())),
		producer.WithRetry(2),
	)
	check(err)
	check(client.Start())
	return client
}

func send(verb string) {
	client := producing()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
	defer cancel()
	var open sync.WaitGroup
	switch verb {
	case "batch":
		result, err := client.SendSync(ctx, messages()...)
		answered(result, err)
	default:
		made := messages()
		for i, message := range made {
			switch verb {
			case "sync":
				result, err := client.SendSync(ctx, message)
				answered(result, err)
			case "oneway":
				// An answer to the last one says that all before it on this connection have arrived: a connection
				// that is closed at once may take along what the broker has not read yet.
				if i == len(made)-1 {
					_, err := client.SendSync(ctx, message)
					check(err)
				} else {
					check(client.SendOneWay(ctx, message))
				}
			case "async":
				open.Add(1)
				check(client.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
					defer open.Done()
					answered(result, err)
				}, message))
			}
		}
	}
	open.Wait()
	check(client.Shutdown())
}

func answered(result *primitive.SendResult, err error) {
	if err != nil {
		say(map[string]any{"error": err.Error()})
		return
	}
	say(map[string]any{
		"status": int(result.Status), "msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
		"queueId": result.MessageQueue.QueueId, "offset": result.QueueOffset,
	})
}

func received(message *primitive.MessageExt) {
	digest := sha256.Sum256(message.Body)
	say(map[string]any{
		"msgId": message.MsgId, "offsetMsgId": message.OffsetMsgId, "queueId": message.Queue.QueueId,
		"offset": message.QueueOffset, "tags": message.GetTags(), "keys": message.GetKeys(),
		"length": len(message.Body), "sha256": hex.EncodeToString(digest[:]),
	})
}

func selector() consumer.MessageSelector {
	expression := *tag
	if expression == "" {
		expression = "*"
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
}

func options() []consumer.Option {
	return []consumer.Option{
		consumer.WithNameServer([]string{*nameServer}),
		consumer.WithGroupName(*group),
		consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
}

func push() {
	client, err := rocketmq.NewPushConsumer(options()...)
	check(err)
	arrived := make(chan struct{}, 100_000)
	listen := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range batch {
			received(message)
			arrived <- struct{}{}
		}
		return consumer.ConsumeSuccess, nil
	}
	check(client.Subscribe(*topic, selector(), listen))
	check(client.Start())
	deadline := time.After(time.Duration(*seconds) * time.Second)
	for seen := 0; seen < *count; seen++ {
		select {
		case <-arrived:
		case <-deadline:
			seen = *count
		}
	}
	check(client.Shutdown())
}

func poll() {
	client, err := rocketmq.NewPullConsumer(options()...)
	check(err)
	check(client.Subscribe(*topic, selector()))
	check(client.Start())
	deadline := time.Now().Add(time.Duration(*seconds) * time.Second)
	for seen := 0; seen < *count && time.Now().Before(deadline); {
		request, err := client.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		check(err)
		for _, message := range request.GetMsgList() {
			received(message)
			seen++
		}
		client.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	check(client.Shutdown())
}

// texts is what several threads say one after another.
type texts struct {
	sync.Mutex
	said []string
}

func (t *texts) add(text string) {
	t.Lock()
	defer t.Unlock()
	t.said = append(t.said, text)
}

func (t *texts) all() []string {
	t.Lock()
	defer t.Unlock()
	return append([]string{}, t.said...)
}

func missing(sent, seen []string) bool {
	had := make(map[string]bool, len(seen))
	for _, text := range seen {
		had[text] = true
	}
	for _, text := range sent {
		if !had[text] {
			return true
		}
	}
	return false
}

func keep() {
	var sent, failed, seen texts
	consuming, err := rocketmq.NewPushConsumer(options()...)
	check(err)
	listen := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range batch {
			seen.add(string(message.Body))
		}
		return consumer.ConsumeSuccess, nil
	}
	check(consuming.Subscribe(*topic, selector(), listen))
	check(consuming.Start())
	client := producing()
	ended := make(chan struct{})
	var working sync.WaitGroup
	for thread := 0; thread < 4; thread++ {
		working.Add(1)
		go func(thread int) {
			defer working.Done()
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond):
				}
				text := fmt.Sprintf("%d-%d", thread, i)
				_, err := client.SendSync(context.Background(), primitive.NewMessage(*topic, []byte(text)))
				if err != nil {
					failed.add(text + ": " + err.Error())
				} else {
					sent.add(text)
				}
				if i == 0 {
					say(map[string]any{"began": thread})
				}
			}
		}(thread)
	}
	_, err = io.ReadAll(os.Stdin)
	check(err)
	close(ended)
	working.Wait()
	deadline := time.Now().Add(time.Duration(*seconds) * time.Second)
	for missing(sent.all(), seen.all()) && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	say(map[string]any{"sent": sent.all(), "failed": failed.all(), "seen": seen.all()})
	check(consuming.Shutdown())
	check(client.Shutdown())
}
