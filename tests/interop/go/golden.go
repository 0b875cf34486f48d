package main

import (
	"fmt"
	"log"
	"os"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/protobuf/proto"
)

func read[M proto.Message](path string, message M) M {
	data, err := os.ReadFile(path)
	if err == nil {
		err = proto.Unmarshal(data, message)
	}
	if err != nil {
		log.Fatal(err)
	}
	return message
}

// decode prints what is in a message that another implementation has written.
func decode(kind, path string) {
	switch kind {
	case "EnqueueRequest":
		m := read(path, &v1.EnqueueRequest{})
		first := m.Messages[0]
		fmt.Printf("facts %s,%x,%d,%x,%d,%d,%s,%d\n", m.Queue, m.RequestId, len(m.Messages), first.Payload,
			first.GetPriority(), first.Ttl.Seconds, first.Properties["name"].GetText(), first.Properties["level"].GetInteger())
	case "DequeueResponse":
		m := read(path, &v1.DequeueResponse{})
		first := m.Messages[0]
		fmt.Printf("facts %d,%d,%d,%d,%x,%d,%s\n", m.LeaseId, m.Header.Epoch, m.Header.Copies, first.Index,
			first.Message.Payload, first.DeliveryCount, first.Message.ContentType)
	case "ProduceResponse":
		m := read(path, &v1.ProduceResponse{})
		last := m.MoreAcks[len(m.MoreAcks)-1]
		fmt.Printf("facts %d,%d,%d,%d,%d\n", m.GetAck().FirstIndex, len(m.MoreAcks), last.FirstSequence,
			last.Errors[0].Error.Reason, last.Count)
	}
}
