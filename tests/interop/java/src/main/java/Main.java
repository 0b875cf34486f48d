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
 * Does what a script says; ends with exit code 1 where a client would have seen something wrong, 2 for a wrong script.
 *
 * <p>Main SCRIPT ADDRESS RUN
 */
final class Main {
  /** Reads a message that another implementation has written. */
  private static void decode(Path folder, String kind, String facts) throws IOException {
    byte[] data = Files.readAllBytes(folder.resolve("golden").resolve(kind + ".binpb"));
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
    String text = String.join(",", found.stream().map(String::valueOf).toList());
    Client.require(text.equals(facts), text);
  }

  private static void act(Client client, Client.Queue queue, Script.Step step, Path folder, BufferedReader answers)
      throws IOException {
    switch (step.verb()) {
      case "decode" -> decode(folder, step.text().get("message"), step.text().get("facts"));
      case "create" -> client.create(queue, step.text().get("type"));
      case "send" -> client.send(queue, step.number("count"));
      case "stream" -> client.stream(queue, step.number("count"), step.number("batch"));
      case "browse" -> client.browse(queue, step.number("first"), step.number("count"));
      case "receive" -> client.receive(queue, step.number("count"));
      case "settle" -> client.settle(queue);
      case "consume" -> client.consume(queue, step.number("count"));
      case "reply" -> client.reply(queue);
      case "answers" -> client.answers(queue, step.number("count"));
      case "expect" -> client.expect(queue, step.number("length"));
      case "await" -> {
        String answer = answers.readLine();
        Client.require("done".equals(answer), answer);
      }
      default -> System.out.println("@" + step.verb()); // asked of who runs this; the next steps do not wait for it
    }
  }

  public static void main(String[] arguments) throws IOException {
    Path path = Path.of(arguments[0]);
    List<Script.Step> steps;
    try {
      steps = Script.parse(path);
    } catch (Script.Wrong wrong) {
      System.err.println(wrong.getMessage());
      System.exit(2);
      return;
    }
    Client client = new Client(Grpc.newChannelBuilder(arguments[1], InsecureChannelCredentials.create()).build());
    Map<String, Client.Queue> queues = new LinkedHashMap<>();
    BufferedReader answers = new BufferedReader(new InputStreamReader(System.in));
    for (Script.Step step : steps) {
      Client.Queue queue = queues.computeIfAbsent(step.queue(), name -> new Client.Queue(arguments[2] + "/" + name));
      try {
        act(client, queue, step, path.toAbsolutePath().getParent(), answers);
      } catch (RuntimeException | IOException error) {
        System.err.println(step.at() + ": " + step.verb() + ": " + error);
        System.exit(1);
      }
    }
    int sent = queues.values().stream().mapToInt(each -> each.sent).sum();
    int taken = queues.values().stream().mapToInt(each -> each.taken).sum();
    System.out.printf("steps=%d sent=%d taken=%d repeated=%d%n", steps.size(), sent, taken, client.repeated);
    System.exit(0);
  }
}
