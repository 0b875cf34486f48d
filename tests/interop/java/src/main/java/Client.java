import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import io.tandemq.v1.*;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A client made of the committed .proto files and stock gRPC: each message exactly once and in order, whoever dies. It has
 * one address, which leads to a member that is alive, and balances nothing.
 */
final class Client {
  private static final long PATIENCE_S = 30; // for one step, repetitions included
  private static final long ATTEMPT_S = 10; // for one call
  private static final Duration WAIT = Duration.newBuilder().setSeconds(5).build();
  private static final Set<Status.Code> IN_DOUBT =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.ABORTED, Status.Code.DEADLINE_EXCEEDED);

  /** What is known of a queue: numbers sent and taken, leases to settle, handles to ask for. */
  static final class Queue {
    final String name;
    final List<ByteString> handles = new ArrayList<>();
    List<Settlement> leased = new ArrayList<>();
    int sent;
    int taken;

    Queue(String name) {
      this.name = name;
    }

    /** Accepts the next messages in order, each once, and says what acknowledges them. */
    Settlement take(long lease, List<DeliveredMessage> messages) {
      IndexRange.Builder range = IndexRange.newBuilder().setFirst(taken + 1).setCount(messages.size());
      messages.forEach(each -> require(isNumber(each, ++taken), each));
      return Settlement.newBuilder().setLeaseId(lease).addRanges(range).setOutcome(Outcome.OUTCOME_ACK).build();
    }
  }

  /** A bidirectional stream read by one thread; `next` throws what ended it. */
  private static final class Stream<Answer> implements StreamObserver<Answer> {
    private final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();

    @Override
    public void onNext(Answer answer) {
      arrived.add(answer);
    }

    @Override
    public void onError(Throwable error) {
      arrived.add(Status.fromThrowable(error).asRuntimeException());
    }

    @Override
    public void onCompleted() {
      arrived.add(away());
    }

    @SuppressWarnings("unchecked")
    Answer next() {
      try {
        Object answer = arrived.poll(PATIENCE_S, TimeUnit.SECONDS);
        if (answer == null || answer instanceof StatusRuntimeException) {
          throw answer == null ? away() : (StatusRuntimeException) answer;
        }
        return (Answer) answer;
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  private final QueueServiceGrpc.QueueServiceBlockingStub queues;
  private final QueueServiceGrpc.QueueServiceStub streams;
  private final QueueAdminServiceGrpc.QueueAdminServiceBlockingStub admin;
  int repeated;

  Client(ManagedChannel channel) {
    queues = QueueServiceGrpc.newBlockingStub(channel);
    streams = QueueServiceGrpc.newStub(channel);
    admin = QueueAdminServiceGrpc.newBlockingStub(channel);
  }

  static void require(boolean ok, Object seen) {
    if (!ok) {
      throw new IllegalStateException("seen " + seen);
    }
  }

  private static StatusRuntimeException away() {
    return Status.UNAVAILABLE.withDescription("the stream ended before everything was answered").asRuntimeException();
  }

  private static ByteString id() {
    UUID id = UUID.randomUUID();
    return ByteString.copyFrom(
        ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array());
  }

  private static ByteString payload(long number) {
    return ByteString.copyFromUtf8(Long.toString(number));
  }

  private static boolean isNumber(DeliveredMessage message, long number) {
    return message.getIndex() == number && message.getMessage().getPayload().equals(payload(number));
  }

  /** Repeats a call with the same identity while its outcome is in doubt: a repetition has one effect. */
  private <T> T again(Supplier<T> call) {
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S); ; repeated++) {
      try {
        return call.get();
      } catch (StatusRuntimeException error) {
        if (!IN_DOUBT.contains(error.getStatus().getCode()) || System.nanoTime() > end) {
          throw error;
        }
        try {
          Thread.sleep(50);
        } catch (InterruptedException interrupted) {
          throw new IllegalStateException(interrupted);
        }
      }
    }
  }

  private <T> T unary(Function<QueueServiceGrpc.QueueServiceBlockingStub, T> call) {
    return again(() -> call.apply(queues.withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS)));
  }

  private <T> T administer(Function<QueueAdminServiceGrpc.QueueAdminServiceBlockingStub, T> call) {
    return again(() -> call.apply(admin.withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS)));
  }

  void create(Queue queue, String type) {
    QueueType kind = type.equals("two_way") ? QueueType.QUEUE_TYPE_TWO_WAY : QueueType.QUEUE_TYPE_ONE_WAY_QUEUED_ACK;
    CreateQueueRequest request = CreateQueueRequest.newBuilder().setName(queue.name).setRequestId(id())
        .setConfig(QueueConfig.newBuilder().setQueueType(kind)).build();
    administer(stub -> stub.createQueue(request));
  }

  void send(Queue queue, int count) {
    for (int i = 0; i < count; i++) {
      EnqueueRequest request = EnqueueRequest.newBuilder().setQueue(queue.name).setRequestId(id())
          .addMessages(Message.newBuilder().setPayload(payload(++queue.sent))).build();
      EnqueueResult result = unary(stub -> stub.enqueue(request)).getResults(0);
      require(result.getIndex() == queue.sent, result);
      queue.handles.add(result.getHandle());
    }
  }

  /** Sends batches without waiting; after a break it sends what is unanswered again, as it was cut. */
  void stream(Queue queue, int count, int batch) {
    ProduceOpen open = ProduceOpen.newBuilder().setClientId(id()).setQueue(queue.name).build();
    List<EnqueueBatch> batches = new ArrayList<>();
    for (int first = 1; first <= count; first += batch) {
      MessageBatch.Builder messages = MessageBatch.newBuilder();
      for (int n = first; n < first + batch && n <= count; n++) {
        messages.addPayloads(payload(queue.sent + n));
      }
      batches.add(EnqueueBatch.newBuilder().setQueue(queue.name).setFirstSequence(first).setMessages(messages).build());
    }
    long[] acked = {0};
    again(() -> {
      Stream<ProduceResponse> answers = new Stream<>();
      StreamObserver<ProduceRequest> out = streams.withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS).produce(answers);
      out.onNext(ProduceRequest.newBuilder().setOpen(open).build());
      batches.stream().filter(each -> each.getFirstSequence() + batch > acked[0] + 1)
          .forEach(each -> out.onNext(ProduceRequest.newBuilder().setBatch(each).build()));
      out.onCompleted();
      while (acked[0] < count) {
        ProduceResponse frame = answers.next();
        if (frame.hasGoaway() || frame.hasReject()) {
          throw away();
        }
        List<EnqueueAck> acks = new ArrayList<>(frame.getMoreAcksList());
        if (frame.hasAck()) {
          acks.add(0, frame.getAck());
        }
        for (EnqueueAck ack : acks) {
          require(ack.getFirstIndex() == queue.sent + ack.getFirstSequence() && ack.getFirstSequence() <= acked[0] + 1, ack);
          acked[0] = Math.max(acked[0], ack.getFirstSequence() + ack.getCount() - 1);
        }
      }
      return null;
    });
    queue.sent += count;
  }

  void browse(Queue queue, int first, int count) {
    BrowseRequest request = BrowseRequest.newBuilder().setQueue(queue.name).build();
    unary(stub -> {
      int[] next = {first};
      stub.browse(request).forEachRemaining(
          page -> page.getMessagesList().forEach(each -> require(isNumber(each, next[0]++), each)));
      require(next[0] == first + count, next[0]);
      return null;
    });
  }

  void receive(Queue queue, int count) {
    for (int end = queue.taken + count; queue.taken < end; ) {
      DequeueRequest request = DequeueRequest.newBuilder().setQueue(queue.name).setRequestId(id()).setWait(WAIT)
          .setMaxMessages(end - queue.taken).build();
      DequeueResponse answer = unary(stub -> stub.dequeue(request));
      require(answer.getMessagesCount() > 0, answer);
      queue.leased.add(queue.take(answer.getLeaseId(), answer.getMessagesList()));
    }
  }

  void settle(Queue queue) {
    SettleRequest request = SettleRequest.newBuilder().setQueue(queue.name).setRequestId(id())
        .addAllSettlements(queue.leased).build();
    SettleResponse answer = unary(stub -> stub.settle(request));
    for (int i = 0; i < queue.leased.size(); i++) {
      SettleResult result = answer.getResults(i);
      require(!result.hasError() && result.getSettled() == queue.leased.get(i).getRanges(0).getCount(), answer);
    }
    queue.leased = new ArrayList<>();
  }

  void reply(Queue queue) {
    for (Settlement part : queue.leased) {
      IndexRange range = part.getRanges(0);
      for (long index = range.getFirst(); index < range.getFirst() + range.getCount(); index++) {
        ReplyRequest request = ReplyRequest.newBuilder().setQueue(queue.name).setRequestId(id()).setLeaseId(part.getLeaseId())
            .setIndex(index).setMessage(Message.newBuilder().setPayload(ByteString.copyFromUtf8("re:" + index))).build();
        unary(stub -> stub.reply(request));
      }
    }
    queue.leased = new ArrayList<>();
  }

  void answers(Queue queue, int count) {
    require(queue.handles.size() == count, queue.handles.size());
    WaitCompletionRequest request = WaitCompletionRequest.newBuilder().setQueue(queue.name).addAllHandles(queue.handles)
        .setWait(WAIT).build();
    WaitCompletionResponse answer = unary(stub -> stub.waitCompletion(request));
    for (int i = 0; i < count; i++) {
      require(answer.getStatuses(i).getReply().getPayload().toStringUtf8().equals("re:" + (i + 1)), answer);
    }
  }

  /** Opens the stream again after a break, says what had reached it, and settles what is not confirmed once more. */
  void consume(Queue queue, int count) {
    int end = queue.taken + count;
    long[] confirmed = {0};
    ConsumeOpen.Builder open = ConsumeOpen.newBuilder().setQueue(queue.name).setClientId(id());
    Deque<ConsumeSettle> waiting = new ArrayDeque<>();
    again(() -> {
      Stream<ConsumeResponse> answers = new Stream<>();
      StreamObserver<ConsumeRequest> out = streams.withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS).consume(answers);
      out.onNext(ConsumeRequest.newBuilder().setOpen(open).build());
      open.setLastLeaseId(open.getLastLeaseId());
      waiting.forEach(each -> out.onNext(ConsumeRequest.newBuilder().setSettle(each).build()));
      if (end > queue.taken) {
        ConsumeCredit.Builder credit = ConsumeCredit.newBuilder().setMessages(end - queue.taken).setBytes(1 << 20);
        out.onNext(ConsumeRequest.newBuilder().setCredit(credit).build());
      }
      while (confirmed[0] < count) {
        ConsumeResponse frame = answers.next();
        if (frame.hasGoaway()) {
          throw away();
        } else if (frame.hasDeliveries()) {
          Deliveries part = frame.getDeliveries();
          open.setLastLeaseId(Math.max(open.getLastLeaseId(), part.getLeaseId()));
          Settlement settlement = queue.take(part.getLeaseId(), part.getMessagesList());
          waiting.add(ConsumeSettle.newBuilder().setSettleId(queue.taken).addSettlements(settlement).build());
          out.onNext(ConsumeRequest.newBuilder().setSettle(waiting.getLast()).build());
        } else if (frame.hasSettled()) {
          ConsumeSettled settled = frame.getSettled();
          require(settled.getSettleId() == waiting.remove().getSettleId() && !settled.getResults(0).hasError(), settled);
          confirmed[0] += settled.getResults(0).getSettled();
        }
      }
      out.onCompleted();
      return null;
    });
  }

  void expect(Queue queue, int length) {
    long found = administer(stub -> stub.getQueue(GetQueueRequest.newBuilder().setName(queue.name).build())).getQueue().getLength();
    require(found == length, found);
  }
}
