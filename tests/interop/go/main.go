// Does what it is told, a step a line on stdin, and answers each with a line: ok, or what it found. Ends with exit code 1
// where a client would have seen something wrong.
//
//	client <address>
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// decode reads a message that another implementation has written.
func decode(kind, path string) string {
	data, err := os.ReadFile(path)
	check(err)
	switch kind {
	case "EnqueueRequest":
		m := &v1.EnqueueRequest{}
		check(proto.Unmarshal(data, m))
		first := m.Messages[0]
		return fmt.Sprintf("%s,%s,%d,%s,%d,%d,%s,%d", m.Queue, hex.EncodeToString(m.RequestId), len(m.Messages), hex.EncodeToString(first.Payload),
			first.GetPriority(), first.Ttl.Seconds, first.Properties["name"].GetText(), first.Properties["level"].GetInteger())
	case "DequeueResponse":
		m := &v1.DequeueResponse{}
		check(proto.Unmarshal(data, m))
		first := m.Messages[0]
		return fmt.Sprintf("%d,%d,%d,%d,%s,%d,%s", m.LeaseId, m.Header.Epoch, m.Header.Copies, first.Index, hex.EncodeToString(first.Message.Payload),
			first.DeliveryCount, first.Message.ContentType)
	case "ProduceResponse":
		m := &v1.ProduceResponse{}
		check(proto.Unmarshal(data, m))
		last := m.MoreAcks[len(m.MoreAcks)-1]
		return fmt.Sprintf("%d,%d,%d,%d,%d", m.GetAck().FirstIndex, len(m.MoreAcks), last.FirstSequence, last.Errors[0].Error.Reason, last.Count)
	}
	panic("unknown message " + kind)
}

func (c *client) do(verb string, values []string) string {
	if verb == "decode" {
		return " " + decode(values[0], values[1])
	}
	number := func(i int) int { n, err := strconv.Atoi(values[i]); check(err); return n }
	q := c.known[values[0]]
	if q == nil {
		q = &queue{name: values[0]}
		c.known[q.name] = q
	}
	switch verb {
	case "create":
		c.create(q, values[1])
	case "send":
		c.send(q, number(1))
	case "stream":
		c.stream(q, number(1), number(2))
	case "browse":
		c.browse(q, number(1), number(2))
	case "receive":
		c.receive(q, number(1))
	case "settle":
		c.settle(q)
	case "consume":
		c.consume(q, number(1))
	case "reply":
		c.reply(q)
	case "answers":
		c.answers(q, number(1))
	case "expect":
		c.expect(q, number(1))
	default:
		panic("unknown verb " + verb)
	}
	return ""
}

func main() {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Fprintln(os.Stderr, reason)
			os.Exit(1)
		}
	}()
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	c := &client{queues: v1.NewQueueServiceClient(conn), admin: v1.NewQueueAdminServiceClient(conn), known: map[string]*queue{}}
	for steps := bufio.NewScanner(os.Stdin); steps.Scan(); {
		words := strings.Fields(steps.Text())
		fmt.Println("ok" + c.do(words[0], words[1:]))
	}
	sent, taken := 0, 0
	for _, q := range c.known {
		sent, taken = sent+q.sent, taken+q.taken
	}
	fmt.Printf("ok sent=%d taken=%d repeated=%d\n", sent, taken, c.repeated)
}
