// A client made of nothing but the committed .proto files: it creates a queue, sends through one member and receives
// through the other, and ends with exit code 0 only if every message came exactly once and in order.
//
//	client <step> <queue> <first member> <second member>
//
// Steps: send (everything, then it ends), receive (everything that send left), both (the two in one run).
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	unary    = 50 // messages by Enqueue, one a call
	batches  = 20 // by Produce
	perBatch = 25
	all      = unary + batches*perBatch
	halfway  = all / 2 // by Dequeue and Settle; the rest by Consume
)

func check(err error, doing string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

func require(ok bool, format string, args ...any) {
	if !ok {
		check(fmt.Errorf(format, args...), "expected")
	}
}

func requestID() []byte {
	id := make([]byte, 16)
	_, err := rand.Read(id)
	check(err, "random bytes")
	return id
}

func dial(endpoint string) v1.QueueServiceClient {
	return v1.NewQueueServiceClient(connect(endpoint))
}

func connect(endpoint string) *grpc.ClientConn {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err, "dial "+endpoint)
	return conn
}

// again repeats a call with the same identity while nobody serves it: a repetition has one effect.
func again(ctx context.Context, doing string, call func() error) {
	for {
		err := call()
		code := status.Code(err)
		if code != codes.Unavailable && code != codes.Aborted {
			check(err, doing)
			return
		}
		check(ctx.Err(), doing)
		time.Sleep(50 * time.Millisecond)
	}
}

func send(ctx context.Context, member v1.QueueServiceClient, queue string) {
	number := 0
	next := func() []byte { number++; return []byte(strconv.Itoa(number)) }
	for range unary {
		request := &v1.EnqueueRequest{Queue: queue, RequestId: requestID(), Messages: []*v1.Message{{Payload: next()}}}
		again(ctx, "Enqueue", func() error {
			answer, err := member.Enqueue(ctx, request)
			require(err != nil || answer.Results[0].Index == uint64(number), "index %d: %v", number, answer)
			return err
		})
	}
	stream, err := member.Produce(ctx)
	check(err, "Produce")
	open := &v1.ProduceOpen{ClientId: requestID(), Queue: queue}
	check(stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Open{Open: open}}), "open")
	first, err := stream.Recv()
	check(err, "opened")
	require(first.GetOpened() != nil, "opened: %v", first)
	for batch := range batches {
		payloads := make([][]byte, perBatch)
		for i := range payloads {
			payloads[i] = next()
		}
		check(stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Batch{Batch: &v1.EnqueueBatch{
			Queue: queue, FirstSequence: uint64(batch*perBatch + 1), Messages: &v1.MessageBatch{Payloads: payloads},
		}}}), "batch")
	}
	check(stream.CloseSend(), "close")
	acked := 0
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			break
		}
		check(err, "ack")
		require(answer.GetAck() != nil, "ack: %v", answer)
		for _, ack := range append([]*v1.EnqueueAck{answer.GetAck()}, answer.MoreAcks...) {
			require(ack.FirstIndex == uint64(unary+acked+1) && !ack.Duplicate, "in order: %v", ack)
			acked += int(ack.Count)
		}
	}
	require(acked == batches*perBatch, "%d acks", acked)
}

type received struct{ last int }

// take accepts the next messages in order, each once.
func (r *received) take(messages []*v1.DeliveredMessage) *v1.IndexRange {
	first := messages[0].Index
	for _, message := range messages {
		r.last++
		require(message.Index == uint64(r.last) && string(message.Message.Payload) == strconv.Itoa(r.last) &&
			message.DeliveryCount == 1, "message %d: %v", r.last, message)
	}
	return &v1.IndexRange{First: first, Count: uint64(len(messages))}
}

func acks(lease uint64, ranges *v1.IndexRange) []*v1.Settlement {
	return []*v1.Settlement{{LeaseId: lease, Ranges: []*v1.IndexRange{ranges}, Outcome: v1.Outcome_OUTCOME_ACK}}
}

func receive(ctx context.Context, member v1.QueueServiceClient, queue string) {
	got := &received{}
	for got.last < halfway {
		request := &v1.DequeueRequest{Queue: queue, RequestId: requestID(), Wait: durationpb.New(5 * time.Second),
			MaxMessages: uint32(min(40, halfway-got.last))}
		var answer *v1.DequeueResponse
		again(ctx, "Dequeue", func() (err error) { answer, err = member.Dequeue(ctx, request); return err })
		require(len(answer.Messages) > 0, "nothing after %d", got.last)
		settle := &v1.SettleRequest{Queue: queue, RequestId: requestID(),
			Settlements: acks(answer.LeaseId, got.take(answer.Messages))}
		again(ctx, "Settle", func() error {
			answer, err := member.Settle(ctx, settle)
			require(err != nil || answer.Results[0].Error == nil, "settled: %v", answer)
			return err
		})
	}
	stream, err := member.Consume(ctx)
	check(err, "Consume")
	check(stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Open{Open: &v1.ConsumeOpen{
		Queue: queue, ClientId: requestID(), Format: v1.DeliveryFormat_DELIVERY_FORMAT_MESSAGES,
	}}}), "open")
	credit := &v1.ConsumeCredit{Messages: all, Bytes: 1 << 20}
	check(stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Credit{Credit: credit}}), "credit")
	for settled := halfway; settled < all; {
		frame, err := stream.Recv()
		check(err, "delivery")
		require(frame.GetGoaway() == nil, "goaway: %v", frame)
		if part := frame.GetDeliveries(); part != nil {
			settle := &v1.ConsumeSettle{SettleId: uint64(got.last), Settlements: acks(part.LeaseId, got.take(part.Messages))}
			check(stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Settle{Settle: settle}}), "settle")
		}
		for _, result := range frame.GetSettled().GetResults() {
			require(result.Error == nil, "settled: %v", result)
			settled += int(result.Settled)
		}
	}
	check(stream.CloseSend(), "close")
	request := &v1.DequeueRequest{Queue: queue, RequestId: requestID()}
	answer, err := member.Dequeue(ctx, request)
	check(err, "Dequeue")
	require(len(answer.Messages) == 0, "more than was sent: %v", answer)
}

func main() {
	step, queue, sender, receiver := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if step != "receive" {
		request := &v1.CreateQueueRequest{Name: queue, RequestId: requestID()}
		_, err := v1.NewQueueAdminServiceClient(connect(sender)).CreateQueue(ctx, request)
		check(err, "CreateQueue")
		send(ctx, dial(sender), queue)
	}
	if step != "send" {
		receive(ctx, dial(receiver), queue)
	}
	fmt.Printf("%s %s: %d messages in order, each once\n", step, queue, all)
}
