package main

import (
	"cmp"
	"context"
	"fmt"

	v1 "github.com/tandemq/tandemq/gen/go/tandemq/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// infoOf is what a member says of a refusal, and nil when the error came from somewhere else.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "tandemq" {
			return info
		}
	}
	return nil
}

// pairwise makes a queue that acknowledges on two copies only.
func (c *client) pairwise(queue string) {
	two := true
	config := &v1.QueueConfig{RequireTwo: &two}
	unary(c.admin.CreateQueue, &v1.CreateQueueRequest{Name: queue, RequestId: id(), Config: config})
}

// ask sends a message that has to be on so many copies.
func (c *client) ask(queue string, number, copies int) {
	messages := []*v1.Message{{Payload: payload(number)}}
	c.asked = &v1.EnqueueRequest{Queue: queue, RequestId: id(), Messages: messages, MinCopies: uint32(copies)}
	c.once(queue)
}

// once sends what was asked for last. A refusal for want of copies is final for now, and says in its metadata whether
// the message is stored all the same, on fewer: it is there then, and only the same request may be sent again.
func (c *client) once(queue string) {
	again(func(ctx context.Context) error {
		answer, err := c.queues.Enqueue(ctx, c.asked)
		if info := infoOf(err); info.GetReason() == "NOT_ENOUGH_COPIES" {
			fmt.Println("refused", int(status.Code(err)), info.Reason, cmp.Or(info.Metadata["outcome"], "-"))
			return nil
		}
		if err == nil {
			fmt.Println("sent", answer.Results[0].Index)
		}
		return err
	})
}
