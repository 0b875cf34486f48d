package main

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errAway = status.Error(codes.Unavailable, "the stream ended before everything was answered")

// next is the stream's next frame. A stream that a member has ended is opened again, there or at the other member.
func next[A any](recv func() (*A, error)) (*A, error) {
	frame, err := recv()
	if err == io.EOF {
		err = errAway
	}
	return frame, err
}

// stream sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
func (c *client) stream(queue string, first, count, size int) {
	open := &v1.ProduceOpen{ClientId: id(), Queue: queue}
	var batches []*v1.EnqueueBatch
	for done := 0; done < count; done += size {
		messages := &v1.MessageBatch{}
		for n := done; n < min(done+size, count); n++ {
			messages.Payloads = append(messages.Payloads, payload(first+n))
		}
		batches = append(batches, &v1.EnqueueBatch{Queue: queue, FirstSequence: uint64(done + 1), Messages: messages})
	}
	acked := 0
	again(func(ctx context.Context) error {
		stream, err := c.queues.Produce(ctx)
		if err != nil {
			return err
		}
		// What is wrong with a stream is told by Recv; Send only knows that something is.
		stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Open{Open: open}})
		for _, each := range batches[acked/size:] {
			stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Batch{Batch: each}})
		}
		stream.CloseSend()
		for acked < count {
			frame, err := next(stream.Recv)
			if err != nil {
				return err
			}
			switch part := frame.Frame.(type) {
			case *v1.ProduceResponse_Ack:
				for _, ack := range append([]*v1.EnqueueAck{part.Ack}, frame.MoreAcks...) {
					fmt.Println("acked", ack.FirstSequence, ack.Count, ack.FirstIndex)
					acked = max(acked, int(ack.FirstSequence)+int(ack.Count)-1)
				}
			case *v1.ProduceResponse_Reject, *v1.ProduceResponse_Goaway:
				return errAway
			}
		}
		return nil
	})
}

// consume opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
func (c *client) consume(queue string, count int) {
	var lease uint64 // the newest that has reached us
	var waiting []*v1.ConsumeSettle
	open := &v1.ConsumeOpen{Queue: queue, ClientId: id(), LastLeaseId: &lease}
	again(func(ctx context.Context) error {
		stream, err := c.queues.Consume(ctx)
		if err != nil {
			return err
		}
		stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Open{Open: open}})
		for _, each := range waiting {
			stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Settle{Settle: each}})
		}
		credit := &v1.ConsumeCredit{Messages: uint32(count), Bytes: 1 << 20}
		stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Credit{Credit: credit}})
		for count > 0 || len(waiting) > 0 {
			frame, err := next(stream.Recv)
			if err != nil {
				return err
			}
			switch part := frame.Frame.(type) {
			case *v1.ConsumeResponse_Deliveries:
				lease = part.Deliveries.LeaseId
				messages := part.Deliveries.Messages
				count -= len(messages)
				settle := &v1.ConsumeSettle{
					SettleId:    messages[len(messages)-1].Index,
					Settlements: []*v1.Settlement{took(lease, messages)},
				}
				waiting = append(waiting, settle)
				stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Settle{Settle: settle}})
			case *v1.ConsumeResponse_Settled:
				fmt.Println("settled", part.Settled.SettleId, part.Settled.Results[0].Settled)
				waiting = waiting[1:]
			case *v1.ConsumeResponse_Goaway:
				return errAway
			}
		}
		return stream.CloseSend()
	})
}
