import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.tandemq.v1.*;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * A client made of the committed .proto files and stock gRPC: each message exactly once and in
 * order, whoever dies. It has one address, which leads to a member that is alive, and balances
 * nothing. It prints what it sees.
 */
class Client {
  private static final long PATIENCE_S = 30; // for a call with its repetitions
  private static final long ATTEMPT_S = 10; // for one of them
  private static final Duration WAIT = Duration.newBuilder().setSeconds(5).build();
  private static final Set<Status.Code> IN_DOUBT =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.ABORTED, Status.Code.DEADLINE_EXCEEDED);

  /**
   * By queue: what acknowledges the messages that were received, handles of those that were sent.
   */
  private final Map<String, List<Settlement>> leased = new HashMap<>();

  private final Map<String, List<ByteString>> handles = new HashMap<>();
  private final Channel channel;

  Client(Channel channel) {
    this.channel = channel;
  }

  QueueServiceGrpc.QueueServiceBlockingV2Stub queues() {
    return QueueServiceGrpc.newBlockingV2Stub(channel)
        .withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS);
  }

  QueueAdminServiceGrpc.QueueAdminServiceBlockingV2Stub admin() {
    return QueueAdminServiceGrpc.newBlockingV2Stub(channel)
        .withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS);
  }

  TransactionServiceGrpc.TransactionServiceBlockingV2Stub units() {
    return TransactionServiceGrpc.newBlockingV2Stub(channel)
        .withDeadlineAfter(ATTEMPT_S, TimeUnit.SECONDS);
  }

  static ByteString id() {
    UUID id = UUID.randomUUID();
    ByteBuffer bytes = ByteBuffer.allocate(16);
    bytes.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).flip();
    return ByteString.copyFrom(bytes);
  }

  static ByteString payload(long number) {
    return ByteString.copyFromUtf8(Long.toString(number));
  }

  interface Call<T> {
    T make() throws StatusException, InterruptedException;
  }

  /** Repeats a call with the same identity while its outcome is in doubt: it has one effect. */
  static <T> T again(Call<T> call) throws StatusException, InterruptedException {
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S); ; Thread.sleep(50)) {
      try {
        return call.make();
      } catch (StatusException | StatusRuntimeException error) {
        Status.Code code = Status.fromThrowable(error).getCode();
        if (!IN_DOUBT.contains(code) || System.nanoTime() > end) {
          throw error;
        }
        System.out.println("repeated " + code);
      }
    }
  }

  void create(String queue, String type) throws Exception {
    QueueConfig config = QueueConfig.newBuilder().setQueueType(QueueType.valueOf(type)).build();
    CreateQueueRequest request =
        CreateQueueRequest.newBuilder().setName(queue).setRequestId(id()).setConfig(config).build();
    again(() -> admin().createQueue(request));
  }

  void send(String queue, int first, int count) throws Exception {
    for (int n = first; n < first + count; n++) {
      Message message = Message.newBuilder().setPayload(payload(n)).build();
      EnqueueRequest request =
          EnqueueRequest.newBuilder()
              .setQueue(queue)
              .setRequestId(id())
              .addMessages(message)
              .build();
      EnqueueResult result = again(() -> queues().enqueue(request)).getResults(0);
      System.out.println("sent " + result.getIndex());
      handles.computeIfAbsent(queue, name -> new ArrayList<>()).add(result.getHandle());
    }
  }

  /** Prints messages, and says what acknowledges them. */
  static Settlement took(long lease, List<DeliveredMessage> messages) {
    Settlement.Builder settlement =
        Settlement.newBuilder().setLeaseId(lease).setOutcome(Outcome.OUTCOME_ACK);
    for (DeliveredMessage each : messages) {
      System.out.printf(
          "message %d %s%n", each.getIndex(), each.getMessage().getPayload().toStringUtf8());
      settlement.addRanges(IndexRange.newBuilder().setFirst(each.getIndex()).setCount(1));
    }
    return settlement.build();
  }

  void browse(String queue) throws Exception {
    BrowseRequest request = BrowseRequest.newBuilder().setQueue(queue).build();
    List<DeliveredMessage> seen =
        again(
            () -> {
              var pages = queues().browse(request);
              List<DeliveredMessage> messages = new ArrayList<>();
              while (pages.hasNext()) {
                messages.addAll(pages.read().getMessagesList());
              }
              return messages;
            });
    took(0, seen);
  }

  void receive(String queue, int count) throws Exception {
    List<Settlement> settlements = leased.computeIfAbsent(queue, name -> new ArrayList<>());
    for (int left = count; left > 0; ) {
      DequeueRequest request =
          DequeueRequest.newBuilder()
              .setQueue(queue)
              .setRequestId(id())
              .setMaxMessages(left)
              .setWait(WAIT)
              .build();
      DequeueResponse answer = again(() -> queues().dequeue(request));
      if (answer.getMessagesCount() == 0) {
        return;
      }
      settlements.add(took(answer.getLeaseId(), answer.getMessagesList()));
      left -= answer.getMessagesCount();
    }
  }

  void settle(String queue) throws Exception {
    List<Settlement> settlements = leased.remove(queue);
    SettleRequest request =
        SettleRequest.newBuilder()
            .setQueue(queue)
            .setRequestId(id())
            .addAllSettlements(settlements)
            .build();
    List<SettleResult> results = again(() -> queues().settle(request)).getResultsList();
    for (int i = 0; i < results.size(); i++) {
      Settlement part = settlements.get(i);
      long last = part.getRanges(part.getRangesCount() - 1).getFirst();
      System.out.printf("settled %d %d%n", last, results.get(i).getSettled());
    }
  }

  /**
   * Makes a unit of work of each message that was received: it is acknowledged, and one enters each
   * of two queues because of it. All three happen, or none does.
   */
  void unit(String queue, String... into) throws Exception {
    for (Settlement part : leased.remove(queue)) {
      for (IndexRange each : part.getRangesList()) {
        Settlement ack = part.toBuilder().clearRanges().addRanges(each).build();
        TransactRequest.Builder unit =
            TransactRequest.newBuilder()
                .setRequestId(id())
                .addSettles(QueueSettlements.newBuilder().setQueue(queue).addSettlements(ack));
        for (String name : into) {
          Message message = Message.newBuilder().setPayload(payload(each.getFirst())).build();
          unit.addPuts(QueueMessages.newBuilder().setQueue(name).addMessages(message));
        }
        TransactRequest request = unit.build();
        List<QueueResults> puts = again(() -> units().transact(request)).getPutsList();
        long first = puts.get(0).getResults(0).getIndex();
        long second = puts.get(1).getResults(0).getIndex();
        System.out.printf("unit %d %d %d%n", each.getFirst(), first, second);
      }
    }
  }

  void reply(String queue) throws Exception {
    for (Settlement part : leased.remove(queue)) {
      for (IndexRange each : part.getRangesList()) {
        Message message =
            Message.newBuilder()
                .setPayload(ByteString.copyFromUtf8("re:" + each.getFirst()))
                .build();
        ReplyRequest request =
            ReplyRequest.newBuilder()
                .setQueue(queue)
                .setRequestId(id())
                .setLeaseId(part.getLeaseId())
                .setIndex(each.getFirst())
                .setMessage(message)
                .build();
        again(() -> queues().reply(request));
      }
    }
  }

  void answers(String queue) throws Exception {
    WaitCompletionRequest request =
        WaitCompletionRequest.newBuilder()
            .setQueue(queue)
            .addAllHandles(handles.get(queue))
            .setWait(WAIT)
            .build();
    for (CompletionStatus each : again(() -> queues().waitCompletion(request)).getStatusesList()) {
      System.out.println("answer " + each.getReply().getPayload().toStringUtf8());
    }
  }

  void length(String queue) throws Exception {
    GetQueueRequest request = GetQueueRequest.newBuilder().setName(queue).build();
    System.out.println("length " + again(() -> admin().getQueue(request)).getQueue().getLength());
  }
}
