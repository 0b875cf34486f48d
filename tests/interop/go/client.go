// A client made of the committed .proto files and stock gRPC: each message exactly once and in order, whoever dies. It
// has one address, which leads to a member that is alive, and balances nothing. It prints what it sees.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"time"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	patience = 30 * time.Second // for a call with its repetitions
	attempt  = 10 * time.Second // for one of them
)

type client struct {
	queues  v1.QueueServiceClient
	admin   v1.QueueAdminServiceClient
	units   v1.TransactionServiceClient
	leased  map[string][]*v1.Settlement // by queue: what acknowledges the messages that were received
	handles map[string][][]byte         // by queue: of the messages that were sent
	asked   *v1.EnqueueRequest          // the last one that had to be on so many copies
}

func newClient(conn *grpc.ClientConn) *client {
	queues, admin := v1.NewQueueServiceClient(conn), v1.NewQueueAdminServiceClient(conn)
	return &client{queues, admin, v1.NewTransactionServiceClient(conn), map[string][]*v1.Settlement{}, map[string][][]byte{}, nil}
}

func id() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

func payload(number int) []byte { return fmt.Append(nil, number) }

// again repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
func again(call func(ctx context.Context) error) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		err := call(ctx)
		cancel()
		code := status.Code(err)
		inDoubt := code == codes.Unavailable || code == codes.Aborted || code == codes.DeadlineExceeded
		switch {
		case err == nil:
			return
		case !inDoubt || time.Now().After(end):
			log.Fatal(err)
		}
		fmt.Println("repeated", code)
	}
}

func unary[Q, A any](call func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q) (answer *A) {
	again(func(ctx context.Context) (err error) {
		answer, err = call(ctx, request)
		return err
	})
	return answer
}

func (c *client) create(queue, kind string) {
	config := &v1.QueueConfig{QueueType: v1.QueueType(v1.QueueType_value[kind])}
	unary(c.admin.CreateQueue, &v1.CreateQueueRequest{Name: queue, RequestId: id(), Config: config})
}

func (c *client) send(queue string, first, count int) {
	for n := first; n < first+count; n++ {
		messages := []*v1.Message{{Payload: payload(n)}}
		answer := unary(c.queues.Enqueue, &v1.EnqueueRequest{Queue: queue, RequestId: id(), Messages: messages})
		fmt.Println("sent", answer.Results[0].Index)
		c.handles[queue] = append(c.handles[queue], answer.Results[0].Handle)
	}
}

// took prints messages, and says what acknowledges them.
func took(lease uint64, messages []*v1.DeliveredMessage) *v1.Settlement {
	settlement := &v1.Settlement{LeaseId: lease, Outcome: v1.Outcome_OUTCOME_ACK}
	for _, each := range messages {
		fmt.Printf("message %d %s\n", each.Index, each.Message.Payload)
		settlement.Ranges = append(settlement.Ranges, &v1.IndexRange{First: each.Index, Count: 1})
	}
	return settlement
}

func (c *client) browse(queue string) {
	var seen []*v1.DeliveredMessage
	again(func(ctx context.Context) error {
		seen = nil
		stream, err := c.queues.Browse(ctx, &v1.BrowseRequest{Queue: queue})
		for err == nil {
			var page *v1.BrowseResponse
			page, err = stream.Recv()
			seen = append(seen, page.GetMessages()...)
		}
		if err == io.EOF {
			return nil
		}
		return err
	})
	took(0, seen)
}

func (c *client) receive(queue string, count int) {
	wait := durationpb.New(5 * time.Second)
	for count > 0 {
		request := &v1.DequeueRequest{Queue: queue, RequestId: id(), MaxMessages: uint32(count), Wait: wait}
		answer := unary(c.queues.Dequeue, request)
		if len(answer.Messages) == 0 {
			return
		}
		c.leased[queue] = append(c.leased[queue], took(answer.LeaseId, answer.Messages))
		count -= len(answer.Messages)
	}
}

func (c *client) settle(queue string) {
	leased := c.leased[queue]
	answer := unary(c.queues.Settle, &v1.SettleRequest{Queue: queue, RequestId: id(), Settlements: leased})
	for i, result := range answer.Results {
		fmt.Println("settled", leased[i].Ranges[len(leased[i].Ranges)-1].First, result.Settled)
	}
	delete(c.leased, queue)
}

// unit makes a unit of work of each message that was received: it is acknowledged, and one enters each of two queues
// because of it. All three happen, or none does.
func (c *client) unit(queue string, into ...string) {
	for _, part := range c.leased[queue] {
		for _, each := range part.Ranges {
			ack := &v1.Settlement{LeaseId: part.LeaseId, Ranges: []*v1.IndexRange{each}, Outcome: part.Outcome}
			request := &v1.TransactRequest{RequestId: id(), Settles: []*v1.QueueSettlements{{Queue: queue, Settlements: []*v1.Settlement{ack}}}}
			for _, name := range into {
				messages := []*v1.Message{{Payload: payload(int(each.First))}}
				request.Puts = append(request.Puts, &v1.QueueMessages{Queue: name, Messages: messages})
			}
			puts := unary(c.units.Transact, request).Puts
			fmt.Println("unit", each.First, puts[0].Results[0].Index, puts[1].Results[0].Index)
		}
	}
	delete(c.leased, queue)
}

func (c *client) reply(queue string) {
	for _, part := range c.leased[queue] {
		for _, each := range part.Ranges {
			message := &v1.Message{Payload: fmt.Appendf(nil, "re:%d", each.First)}
			request := &v1.ReplyRequest{Queue: queue, RequestId: id(), LeaseId: part.LeaseId, Index: each.First, Message: message}
			unary(c.queues.Reply, request)
		}
	}
	delete(c.leased, queue)
}

func (c *client) answers(queue string) {
	wait := durationpb.New(5 * time.Second)
	request := &v1.WaitCompletionRequest{Queue: queue, Handles: c.handles[queue], Wait: wait}
	for _, each := range unary(c.queues.WaitCompletion, request).Statuses {
		fmt.Printf("answer %s\n", each.Reply.GetPayload())
	}
}

func (c *client) length(queue string) {
	fmt.Println("length", unary(c.admin.GetQueue, &v1.GetQueueRequest{Name: queue}).Queue.Length)
}
