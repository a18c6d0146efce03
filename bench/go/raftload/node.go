package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// The protocol of bench/log_node.py, big-endian:
//
//	request  length u32 | number u64 | operation u8 | key length u16 | key | value
//	answer   length u32 | number u64 | status u8 | text
//
// length counts what follows it.
const (
	opPut    = 1
	statusOK = 0
)

type answer struct {
	status byte
	text   string
}

type nodeLane struct {
	socket  net.Conn
	queue   chan []byte
	lock    sync.Mutex
	waiting map[uint64]chan answer
	last    uint64
	err     error
}

// connectNode opens one connection; the puts of many goroutines share its writes as they share those of gRPC.
func connectNode(endpoint string) (putter, error) {
	socket, err := net.Dial("tcp", endpoint)
	if err != nil {
		return nil, err
	}
	lane := &nodeLane{socket: socket, queue: make(chan []byte, 1024), waiting: map[uint64]chan answer{}}
	go lane.write()
	go lane.read()
	return lane, nil
}

var channels = sync.Pool{New: func() any { return make(chan answer, 1) }}

func (lane *nodeLane) put(_ context.Context, key string, value []byte) error {
	channel := channels.Get().(chan answer)
	lane.lock.Lock()
	if lane.err != nil {
		lane.lock.Unlock()
		return lane.err
	}
	lane.last++
	number := lane.last
	lane.waiting[number] = channel
	lane.lock.Unlock()
	frame := make([]byte, 15+len(key)+len(value))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	binary.BigEndian.PutUint64(frame[4:], number)
	frame[12] = opPut
	binary.BigEndian.PutUint16(frame[13:], uint16(len(key)))
	copy(frame[15:], key)
	copy(frame[15+len(key):], value)
	lane.queue <- frame
	got := <-channel
	channels.Put(channel)
	if got.status != statusOK {
		return fmt.Errorf("status %d: %s", got.status, got.text)
	}
	return nil
}

func (lane *nodeLane) write() {
	out := bufio.NewWriterSize(lane.socket, 64<<10)
	for frame := range lane.queue {
		out.Write(frame)
		for len(lane.queue) > 0 {
			out.Write(<-lane.queue)
		}
		if err := out.Flush(); err != nil {
			lane.fail(err)
		}
	}
}

func (lane *nodeLane) read() {
	in := bufio.NewReaderSize(lane.socket, 64<<10)
	head := make([]byte, 13)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			lane.fail(err)
			return
		}
		text := make([]byte, binary.BigEndian.Uint32(head)-9)
		if _, err := io.ReadFull(in, text); err != nil {
			lane.fail(err)
			return
		}
		lane.settle(binary.BigEndian.Uint64(head[4:]), answer{head[12], string(text)})
	}
}

func (lane *nodeLane) settle(number uint64, got answer) {
	lane.lock.Lock()
	channel := lane.waiting[number]
	delete(lane.waiting, number)
	lane.lock.Unlock()
	if channel != nil {
		channel <- got
	}
}

func (lane *nodeLane) fail(err error) {
	lane.lock.Lock()
	defer lane.lock.Unlock()
	if lane.err == nil {
		lane.err = errors.Join(errors.New("the connection is lost"), err)
	}
	for number, channel := range lane.waiting {
		delete(lane.waiting, number)
		channel <- answer{255, lane.err.Error()}
	}
}

func (lane *nodeLane) close() { lane.socket.Close() }
