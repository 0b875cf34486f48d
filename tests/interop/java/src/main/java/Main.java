import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.tandemq.v1.*;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Does what it is told, a step a line on stdin, and answers each with a line: ok, or what it found. Ends with exit code 1
 * where a client would have seen something wrong.
 *
 * <p>Main ADDRESS
 */
final class Main {
  /** Reads a message that another implementation has written. */
  private static String decode(String kind, Path path) throws IOException {
    byte[] data = Files.readAllBytes(path);
    HexFormat hex = HexFormat.of();
    List<Object> found = switch (kind) {
      case "EnqueueRequest" -> {
        EnqueueRequest m = EnqueueRequest.parseFrom(data);
        Message first = m.getMessages(0);
        yield List.of(m.getQueue(), hex.formatHex(m.getRequestId().toByteArray()), m.getMessagesCount(),
            hex.formatHex(first.getPayload().toByteArray()), first.getPriority(), first.getTtl().getSeconds(),
            first.getPropertiesOrThrow("name").getText(), first.getPropertiesOrThrow("level").getInteger());
      }
      case "DequeueResponse" -> {
        DequeueResponse m = DequeueResponse.parseFrom(data);
        DeliveredMessage first = m.getMessages(0);
        yield List.of(m.getLeaseId(), m.getHeader().getEpoch(), m.getHeader().getCopies(),
            Long.toUnsignedString(first.getIndex()), hex.formatHex(first.getMessage().getPayload().toByteArray()),
            first.getDeliveryCount(), first.getMessage().getContentType());
      }
      default -> {
        ProduceResponse m = ProduceResponse.parseFrom(data);
        EnqueueAck last = m.getMoreAcks(m.getMoreAcksCount() - 1);
        yield List.of(m.getAck().getFirstIndex(), m.getMoreAcksCount(), last.getFirstSequence(),
            last.getErrors(0).getError().getReasonValue(), last.getCount());
      }
    };
    return String.join(",", found.stream().map(String::valueOf).toList());
  }

  private static void act(Client client, Client.Queue queue, String[] step) {
    switch (step[0]) {
      case "create" -> client.create(queue, step[2]);
      case "send" -> client.send(queue, number(step[2]));
      case "stream" -> client.stream(queue, number(step[2]), number(step[3]));
      case "browse" -> client.browse(queue, number(step[2]), number(step[3]));
      case "receive" -> client.receive(queue, number(step[2]));
      case "settle" -> client.settle(queue);
      case "consume" -> client.consume(queue, number(step[2]));
      case "reply" -> client.reply(queue);
      case "answers" -> client.answers(queue, number(step[2]));
      case "expect" -> client.expect(queue, number(step[2]));
      default -> throw new IllegalArgumentException("unknown verb " + step[0]);
    }
  }

  private static int number(String value) {
    return Integer.parseInt(value);
  }

  private static void answer(String address) throws IOException {
    Client client = new Client(Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build());
    Map<String, Client.Queue> queues = new LinkedHashMap<>();
    BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = steps.readLine()) != null; ) {
      String[] words = line.split(" ");
      if (words[0].equals("decode")) {
        System.out.println("ok " + decode(words[1], Path.of(words[2])));
      } else {
        act(client, queues.computeIfAbsent(words[1], Client.Queue::new), words);
        System.out.println("ok");
      }
    }
    int sent = queues.values().stream().mapToInt(each -> each.sent).sum();
    int taken = queues.values().stream().mapToInt(each -> each.taken).sum();
    System.out.printf("ok sent=%d taken=%d repeated=%d%n", sent, taken, client.repeated);
  }

  public static void main(String[] arguments) {
    try {
      answer(arguments[0]);
    } catch (RuntimeException | IOException error) {
      System.err.println(error);
      System.exit(1);
    }
    System.exit(0);
  }
}
