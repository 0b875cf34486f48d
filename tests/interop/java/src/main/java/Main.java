import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;

/**
 * Does what it is told, a step a line on stdin: prints what it sees, and then ok.
 * tests/interop/README.md has the lines.
 *
 * <p>Main ADDRESS
 */
final class Main {
  private Main() {}

  private static void act(Copies client, String[] step) throws Exception {
    String name = step[1];
    switch (step[0]) {
      case "decode" -> Golden.decode(name, Path.of(step[2]));
      case "create" -> client.create(name, step[2]);
      case "send" -> client.send(name, number(step[2]), number(step[3]));
      case "stream" -> client.stream(name, number(step[2]), number(step[3]), number(step[4]));
      case "browse" -> client.browse(name);
      case "receive" -> client.receive(name, number(step[2]));
      case "settle" -> client.settle(name);
      case "consume" -> client.consume(name, number(step[2]));
      case "unit" -> client.unit(name, step[2], step[3]);
      case "reply" -> client.reply(name);
      case "answers" -> client.answers(name);
      case "pairwise" -> client.pairwise(name);
      case "ask" -> client.ask(name, number(step[2]), number(step[3]));
      case "once" -> client.once();
      case "length" -> client.length(name);
      default -> throw new IllegalArgumentException("unknown verb " + step[0]);
    }
  }

  private static int number(String value) {
    return Integer.parseInt(value);
  }

  public static void main(String[] arguments) throws Exception {
    var channel = Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
    Copies client = new Copies(channel);
    BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = steps.readLine()) != null; ) {
      act(client, line.split(" "));
      System.out.println("ok");
    }
    channel.shutdown();
  }
}
