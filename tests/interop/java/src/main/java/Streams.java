import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusException;
import io.tandemq.v1.*;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * The fast path: many messages on their way at once, over streams that outlive their connections.
 */
class Streams extends Client {
  Streams(Channel channel) {
    super(channel);
  }

  private static StatusException away() {
    return Status.UNAVAILABLE
        .withDescription("the stream ended before everything was answered")
        .asException();
  }

  private static ProduceRequest frame(EnqueueBatch batch) {
    return ProduceRequest.newBuilder().setBatch(batch).build();
  }

  private static ConsumeRequest frame(ConsumeSettle settle) {
    return ConsumeRequest.newBuilder().setSettle(settle).build();
  }

  /**
   * Sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
   */
  void stream(String queue, int first, int count, int size) throws Exception {
    ProduceOpen open = ProduceOpen.newBuilder().setClientId(id()).setQueue(queue).build();
    List<EnqueueBatch> batches = new ArrayList<>();
    for (int done = 0; done < count; done += size) {
      MessageBatch.Builder messages = MessageBatch.newBuilder();
      for (int n = done; n < Math.min(done + size, count); n++) {
        messages.addPayloads(payload(first + n));
      }
      batches.add(
          EnqueueBatch.newBuilder()
              .setQueue(queue)
              .setFirstSequence(done + 1)
              .setMessages(messages)
              .build());
    }
    int[] acked = {0};
    again(
        () -> {
          var stream = queues().produce();
          // What is wrong with a stream is told by read; write only knows that something is.
          stream.write(ProduceRequest.newBuilder().setOpen(open).build());
          for (EnqueueBatch each : batches.subList(acked[0] / size, batches.size())) {
            stream.write(frame(each));
          }
          stream.halfClose();
          while (acked[0] < count) {
            ProduceResponse answer = stream.read();
            if (answer == null || answer.hasGoaway() || answer.hasReject()) {
              throw away();
            }
            List<EnqueueAck> acks = new ArrayList<>();
            if (answer.hasAck()) {
              acks.add(answer.getAck());
            }
            acks.addAll(answer.getMoreAcksList());
            for (EnqueueAck ack : acks) {
              System.out.printf(
                  "acked %d %d %d%n", ack.getFirstSequence(), ack.getCount(), ack.getFirstIndex());
              acked[0] = Math.max(acked[0], (int) ack.getFirstSequence() + ack.getCount() - 1);
            }
          }
          return null;
        });
  }

  /**
   * Opens the stream again after a break, says what had reached it, and settles what is not
   * confirmed once more.
   */
  void consume(String queue, int count) throws Exception {
    ConsumeOpen.Builder open =
        ConsumeOpen.newBuilder().setQueue(queue).setClientId(id()).setLastLeaseId(0);
    Deque<ConsumeSettle> waiting = new ArrayDeque<>();
    int[] left = {count};
    again(
        () -> {
          var stream = queues().consume();
          stream.write(ConsumeRequest.newBuilder().setOpen(open).build());
          for (ConsumeSettle each : waiting) {
            stream.write(frame(each));
          }
          ConsumeCredit.Builder credit =
              ConsumeCredit.newBuilder().setMessages(left[0]).setBytes(1 << 20);
          stream.write(ConsumeRequest.newBuilder().setCredit(credit).build());
          while (left[0] > 0 || !waiting.isEmpty()) {
            ConsumeResponse answer = stream.read();
            if (answer == null || answer.hasGoaway()) {
              throw away();
            } else if (answer.hasDeliveries()) {
              Deliveries part = answer.getDeliveries();
              List<DeliveredMessage> messages = part.getMessagesList();
              open.setLastLeaseId(part.getLeaseId());
              left[0] -= messages.size();
              waiting.add(
                  ConsumeSettle.newBuilder()
                      .setSettleId(messages.get(messages.size() - 1).getIndex())
                      .addSettlements(took(part.getLeaseId(), messages))
                      .build());
              stream.write(frame(waiting.getLast()));
            } else if (answer.hasSettled()) {
              ConsumeSettled settled = answer.getSettled();
              System.out.printf(
                  "settled %d %d%n", settled.getSettleId(), settled.getResults(0).getSettled());
              waiting.remove();
            }
          }
          stream.halfClose();
          return null;
        });
  }
}
