import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.tandemq.v1.*;
import java.util.Optional;

/** The same client, with messages that have to be on two copies. */
final class Copies extends Streams {
  private EnqueueRequest asked;

  Copies(Channel channel) {
    super(channel);
  }

  /** What a member says of a refusal; empty when the error came from somewhere else. */
  static Optional<ErrorInfo> infoOf(Throwable error) throws InvalidProtocolBufferException {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    if (status != null) {
      for (Any detail : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          if (info.getDomain().equals("tandemq")) {
            return Optional.of(info);
          }
        }
      }
    }
    return Optional.empty();
  }

  /** Makes a queue that acknowledges on two copies only. */
  void pairwise(String queue) throws Exception {
    QueueConfig config = QueueConfig.newBuilder().setRequireTwo(true).build();
    CreateQueueRequest request =
        CreateQueueRequest.newBuilder().setName(queue).setRequestId(id()).setConfig(config).build();
    again(() -> admin().createQueue(request));
  }

  /** Sends a message that has to be on so many copies. */
  void ask(String queue, int number, int copies) throws Exception {
    Message message = Message.newBuilder().setPayload(payload(number)).build();
    asked =
        EnqueueRequest.newBuilder()
            .setQueue(queue)
            .setRequestId(id())
            .addMessages(message)
            .setMinCopies(copies)
            .build();
    once();
  }

  /**
   * Sends what was asked for last. A refusal for want of copies is final for now, and says in its
   * metadata whether the message is stored all the same, on fewer: it is there then, and only the
   * same request may be sent again.
   */
  void once() throws Exception {
    System.out.println(again(this::answer));
  }

  private String answer() {
    try {
      return "sent " + queues().enqueue(asked).getResults(0).getIndex();
    } catch (StatusRuntimeException error) {
      ErrorInfo info = read(error);
      if (!info.getReason().equals("NOT_ENOUGH_COPIES")) {
        throw error;
      }
      int code = Status.fromThrowable(error).getCode().value();
      String outcome = info.getMetadataOrDefault("outcome", "-");
      return "refused " + code + " " + info.getReason() + " " + outcome;
    }
  }

  private static ErrorInfo read(Throwable error) {
    try {
      return infoOf(error).orElse(ErrorInfo.getDefaultInstance());
    } catch (InvalidProtocolBufferException wrong) {
      throw new IllegalStateException(wrong);
    }
  }
}
