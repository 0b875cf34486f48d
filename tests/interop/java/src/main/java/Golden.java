import io.tandemq.v1.*;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;

/** Reads messages that another implementation has written. */
final class Golden {
  private static final HexFormat HEX = HexFormat.of();

  private Golden() {}

  static void decode(String kind, Path path) throws IOException {
    byte[] data = Files.readAllBytes(path);
    List<Object> facts =
        switch (kind) {
          case "EnqueueRequest" -> request(EnqueueRequest.parseFrom(data));
          case "DequeueResponse" -> delivery(DequeueResponse.parseFrom(data));
          default -> acks(ProduceResponse.parseFrom(data));
        };
    System.out.println("facts " + String.join(",", facts.stream().map(String::valueOf).toList()));
  }

  private static List<Object> request(EnqueueRequest m) {
    Message first = m.getMessages(0);
    return List.of(
        m.getQueue(),
        HEX.formatHex(m.getRequestId().toByteArray()),
        m.getMessagesCount(),
        HEX.formatHex(first.getPayload().toByteArray()),
        first.getPriority(),
        first.getTtl().getSeconds(),
        first.getPropertiesOrThrow("name").getText(),
        first.getPropertiesOrThrow("level").getInteger());
  }

  private static List<Object> delivery(DequeueResponse m) {
    DeliveredMessage first = m.getMessages(0);
    return List.of(
        m.getLeaseId(),
        m.getHeader().getEpoch(),
        m.getHeader().getCopies(),
        Long.toUnsignedString(first.getIndex()),
        HEX.formatHex(first.getMessage().getPayload().toByteArray()),
        first.getDeliveryCount(),
        first.getMessage().getContentType());
  }

  private static List<Object> acks(ProduceResponse m) {
    EnqueueAck last = m.getMoreAcks(m.getMoreAcksCount() - 1);
    return List.of(
        m.getAck().getFirstIndex(),
        m.getMoreAcksCount(),
        last.getFirstSequence(),
        last.getErrors(0).getError().getReasonValue(),
        last.getCount());
  }
}
