// A client made of the committed .proto files and stock gRPC: each message exactly once and in order, whoever dies. It
// has one address, which leads to a member that is alive, and balances nothing.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"time"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	patience = 30 * time.Second // for one step, repetitions included
	attempt  = 10 * time.Second // for one call
)

// What is known of a queue: numbers sent and taken, leases to settle, handles to ask for.
type queue struct {
	name        string
	sent, taken int
	leased      []*v1.Settlement
	handles     [][]byte
}

type client struct {
	queues   v1.QueueServiceClient
	admin    v1.QueueAdminServiceClient
	known    map[string]*queue
	repeated int
}

func id() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

func payload(n int) []byte { return []byte(strconv.Itoa(n)) }

func require(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Errorf(format, args...))
	}
}

func check(err error) { require(err == nil, "%v", err) }

var away = status.Error(codes.Unavailable, "the stream ended before everything was answered")

// again repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
func (c *client) again(call func(ctx context.Context) error) {
	for end := time.Now().Add(patience); ; c.repeated++ {
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		err := call(ctx)
		cancel()
		code := status.Code(err)
		if inDoubt := code == codes.Unavailable || code == codes.Aborted || code == codes.DeadlineExceeded; !inDoubt || time.Now().After(end) {
			check(err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *client) create(q *queue, kind string) {
	types := map[string]v1.QueueType{"queued_ack": v1.QueueType_QUEUE_TYPE_ONE_WAY_QUEUED_ACK, "two_way": v1.QueueType_QUEUE_TYPE_TWO_WAY}
	request := &v1.CreateQueueRequest{Name: q.name, RequestId: id(), Config: &v1.QueueConfig{QueueType: types[kind]}}
	c.again(func(ctx context.Context) error { _, err := c.admin.CreateQueue(ctx, request); return err })
}

func (c *client) send(q *queue, count int) {
	for range count {
		q.sent++
		request := &v1.EnqueueRequest{Queue: q.name, RequestId: id(), Messages: []*v1.Message{{Payload: payload(q.sent)}}}
		c.again(func(ctx context.Context) error {
			answer, err := c.queues.Enqueue(ctx, request)
			if err == nil {
				require(answer.Results[0].Index == uint64(q.sent), "message %d: %v", q.sent, answer)
				q.handles = append(q.handles, answer.Results[0].Handle)
			}
			return err
		})
	}
}

// stream sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
func (c *client) stream(q *queue, count, batch int) {
	open := &v1.ProduceOpen{ClientId: id(), Queue: q.name}
	var batches []*v1.EnqueueBatch
	for first := 1; first <= count; first += batch {
		each := &v1.EnqueueBatch{Queue: q.name, FirstSequence: uint64(first), Messages: &v1.MessageBatch{}}
		for n := first; n < first+batch && n <= count; n++ {
			each.Messages.Payloads = append(each.Messages.Payloads, payload(q.sent+n))
		}
		batches = append(batches, each)
	}
	acked := 0
	c.again(func(ctx context.Context) error {
		stream, err := c.queues.Produce(ctx)
		if err != nil {
			return err
		}
		// What is wrong with a stream is told by Recv; Send only knows that something is.
		stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Open{Open: open}})
		for _, each := range batches {
			if int(each.FirstSequence)+len(each.Messages.Payloads) > acked+1 {
				stream.Send(&v1.ProduceRequest{Frame: &v1.ProduceRequest_Batch{Batch: each}})
			}
		}
		stream.CloseSend()
		for acked < count {
			frame, err := stream.Recv()
			if err == io.EOF || frame.GetGoaway() != nil || frame.GetReject() != nil {
				return away
			} else if err != nil {
				return err
			}
			for _, ack := range append([]*v1.EnqueueAck{frame.GetAck()}, frame.MoreAcks...) {
				if ack != nil {
					require(ack.FirstIndex == uint64(q.sent)+ack.FirstSequence && int(ack.FirstSequence) <= acked+1, "in order: %v", ack)
					acked = max(acked, int(ack.FirstSequence)+int(ack.Count)-1)
				}
			}
		}
		return nil
	})
	q.sent += count
}

func (c *client) browse(q *queue, first, count int) {
	c.again(func(ctx context.Context) error {
		stream, err := c.queues.Browse(ctx, &v1.BrowseRequest{Queue: q.name})
		if err != nil {
			return err
		}
		next := first
		for {
			page, err := stream.Recv()
			if err == io.EOF {
				require(next == first+count, "%d messages from %d on", next-first, first)
				return nil
			} else if err != nil {
				return err
			}
			for _, each := range page.Messages {
				require(each.Index == uint64(next) && string(each.Message.Payload) == strconv.Itoa(next), "message %d: %v", next, each)
				next++
			}
		}
	})
}

// take accepts the next messages in order, each once, and says what acknowledges them.
func (q *queue) take(lease uint64, messages []*v1.DeliveredMessage) *v1.Settlement {
	for _, each := range messages {
		q.taken++
		require(each.Index == uint64(q.taken) && string(each.Message.Payload) == strconv.Itoa(q.taken), "message %d: %v", q.taken, each)
	}
	ranges := []*v1.IndexRange{{First: messages[0].Index, Count: uint64(len(messages))}}
	return &v1.Settlement{LeaseId: lease, Ranges: ranges, Outcome: v1.Outcome_OUTCOME_ACK}
}

func (c *client) receive(q *queue, count int) {
	for end := q.taken + count; q.taken < end; {
		request := &v1.DequeueRequest{Queue: q.name, RequestId: id(), MaxMessages: uint32(end - q.taken), Wait: durationpb.New(5 * time.Second)}
		c.again(func(ctx context.Context) error {
			answer, err := c.queues.Dequeue(ctx, request)
			if err == nil {
				require(len(answer.Messages) > 0, "nothing after %d", q.taken)
				q.leased = append(q.leased, q.take(answer.LeaseId, answer.Messages))
			}
			return err
		})
	}
}

func (c *client) settle(q *queue) {
	request := &v1.SettleRequest{Queue: q.name, RequestId: id(), Settlements: q.leased}
	c.again(func(ctx context.Context) error {
		answer, err := c.queues.Settle(ctx, request)
		for i, result := range answer.GetResults() {
			require(result.Error == nil && result.Settled == q.leased[i].Ranges[0].Count, "settled: %v", answer)
		}
		return err
	})
	q.leased = nil
}

func (c *client) reply(q *queue) {
	for _, part := range q.leased {
		for index := part.Ranges[0].First; index < part.Ranges[0].First+part.Ranges[0].Count; index++ {
			message := &v1.Message{Payload: fmt.Appendf(nil, "re:%d", index)}
			request := &v1.ReplyRequest{Queue: q.name, RequestId: id(), LeaseId: part.LeaseId, Index: index, Message: message}
			c.again(func(ctx context.Context) error { _, err := c.queues.Reply(ctx, request); return err })
		}
	}
	q.leased = nil
}

func (c *client) answers(q *queue, count int) {
	require(len(q.handles) == count, "%d requests were sent", len(q.handles))
	request := &v1.WaitCompletionRequest{Queue: q.name, Handles: q.handles, Wait: durationpb.New(5 * time.Second)}
	c.again(func(ctx context.Context) error {
		answer, err := c.queues.WaitCompletion(ctx, request)
		for i, each := range answer.GetStatuses() {
			require(string(each.Reply.GetPayload()) == fmt.Sprintf("re:%d", i+1), "answer %d: %v", i+1, each)
		}
		return err
	})
}

// consume opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
func (c *client) consume(q *queue, count int) {
	end, confirmed, lease := q.taken+count, 0, uint64(0)
	open := &v1.ConsumeOpen{Queue: q.name, ClientId: id()}
	var waiting []*v1.ConsumeSettle
	c.again(func(ctx context.Context) error {
		stream, err := c.queues.Consume(ctx)
		if err != nil {
			return err
		}
		stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Open{Open: open}})
		open.LastLeaseId = &lease
		for _, each := range waiting {
			stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Settle{Settle: each}})
		}
		if credit := end - q.taken; credit > 0 {
			stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Credit{Credit: &v1.ConsumeCredit{Messages: uint32(credit), Bytes: 1 << 20}}})
		}
		for confirmed < count {
			frame, err := stream.Recv()
			if err == io.EOF || frame.GetGoaway() != nil {
				return away
			} else if err != nil {
				return err
			}
			if part := frame.GetDeliveries(); part != nil {
				lease = max(lease, part.LeaseId)
				each := &v1.ConsumeSettle{Settlements: []*v1.Settlement{q.take(part.LeaseId, part.Messages)}}
				each.SettleId = uint64(q.taken)
				waiting = append(waiting, each)
				stream.Send(&v1.ConsumeRequest{Frame: &v1.ConsumeRequest_Settle{Settle: each}})
			}
			if settled := frame.GetSettled(); settled != nil {
				require(settled.SettleId == waiting[0].SettleId && settled.Results[0].Error == nil, "settled: %v", settled)
				confirmed += int(settled.Results[0].Settled)
				waiting = waiting[1:]
			}
		}
		return stream.CloseSend()
	})
}

func (c *client) expect(q *queue, length int) {
	c.again(func(ctx context.Context) error {
		answer, err := c.admin.GetQueue(ctx, &v1.GetQueueRequest{Name: q.name})
		require(err != nil || answer.Queue.Length == uint64(length), "length %d", answer.GetQueue().GetLength())
		return err
	})
}
