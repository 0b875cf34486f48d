// Does what a script says; ends with exit code 1 where a client would have seen something wrong, 2 for a wrong script.
//
//	client <script> <address> <run>
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// decode reads a message that another implementation has written.
func decode(path, kind, facts string) {
	data, err := os.ReadFile(path)
	check(err)
	found := ""
	switch kind {
	case "EnqueueRequest":
		m := &v1.EnqueueRequest{}
		check(proto.Unmarshal(data, m))
		first := m.Messages[0]
		found = fmt.Sprintf("%s,%s,%d,%s,%d,%d,%s,%d", m.Queue, hex.EncodeToString(m.RequestId), len(m.Messages), hex.EncodeToString(first.Payload),
			first.GetPriority(), first.Ttl.Seconds, first.Properties["name"].GetText(), first.Properties["level"].GetInteger())
	case "DequeueResponse":
		m := &v1.DequeueResponse{}
		check(proto.Unmarshal(data, m))
		first := m.Messages[0]
		found = fmt.Sprintf("%d,%d,%d,%d,%s,%d,%s", m.LeaseId, m.Header.Epoch, m.Header.Copies, first.Index, hex.EncodeToString(first.Message.Payload),
			first.DeliveryCount, first.Message.ContentType)
	case "ProduceResponse":
		m := &v1.ProduceResponse{}
		check(proto.Unmarshal(data, m))
		last := m.MoreAcks[len(m.MoreAcks)-1]
		found = fmt.Sprintf("%d,%d,%d,%d,%d", m.GetAck().FirstIndex, len(m.MoreAcks), last.FirstSequence, last.Errors[0].Error.Reason, last.Count)
	}
	require(found == facts, "found %s", found)
}

func (c *client) do(s step, folder string, answers *bufio.Scanner) {
	q := c.known[s.queue]
	switch s.verb {
	case "decode":
		decode(filepath.Join(folder, "golden", s.text["message"]+".binpb"), s.text["message"], s.text["facts"])
	case "create":
		c.create(q, s.text["type"])
	case "send":
		c.send(q, s.number("count"))
	case "stream":
		c.stream(q, s.number("count"), s.number("batch"))
	case "browse":
		c.browse(q, s.number("first"), s.number("count"))
	case "receive":
		c.receive(q, s.number("count"))
	case "settle":
		c.settle(q)
	case "consume":
		c.consume(q, s.number("count"))
	case "reply":
		c.reply(q)
	case "answers":
		c.answers(q, s.number("count"))
	case "expect":
		c.expect(q, s.number("length"))
	case "kill", "handoff": // asked of who runs this; the next steps do not wait for it
		fmt.Println("@" + s.verb)
	case "await":
		require(answers.Scan() && answers.Text() == "done", "who runs this says: %s", answers.Text())
	}
}

func main() {
	script, address, run := os.Args[1], os.Args[2], os.Args[3]
	steps, err := parse(script)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	c := &client{queues: v1.NewQueueServiceClient(conn), admin: v1.NewQueueAdminServiceClient(conn), known: map[string]*queue{}}
	answers := bufio.NewScanner(os.Stdin)
	for _, each := range steps {
		if c.known[each.queue] == nil {
			c.known[each.queue] = &queue{name: run + "/" + each.queue}
		}
		func() {
			defer func() {
				if reason := recover(); reason != nil {
					fmt.Fprintf(os.Stderr, "%s: %s: %v\n", each.at, each.verb, reason)
					os.Exit(1)
				}
			}()
			c.do(each, filepath.Dir(script), answers)
		}()
		c.done++
	}
	sent, taken := 0, 0
	for _, q := range c.known {
		sent, taken = sent+q.sent, taken+q.taken
	}
	fmt.Printf("steps=%d sent=%d taken=%d repeated=%d\n", c.done, sent, taken, c.repeated)
}
