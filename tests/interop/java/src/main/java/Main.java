import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;

/**
 * Does what it is told, a step a line on stdin: prints what it sees, and then ok.
 * tests/interop/README.md has the lines.
 *
 * <p>Main ADDRESS [DIRECTORY OF CREDENTIALS]
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

  /** Mutual TLS by a directory with ca.pem, cert.pem and key.pem. */
  static ChannelCredentials credentials(File directory) throws IOException {
    return TlsChannelCredentials.newBuilder()
        .trustManager(new File(directory, "ca.pem"))
        .keyManager(new File(directory, "cert.pem"), new File(directory, "key.pem"))
        .build();
  }

  public static void main(String[] arguments) throws Exception {
    ChannelCredentials shown =
        arguments.length > 1
            ? credentials(new File(arguments[1]))
            : InsecureChannelCredentials.create();
    var channel = Grpc.newChannelBuilder(arguments[0], shown).build();
    Copies client = new Copies(channel);
    BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = steps.readLine()) != null; ) {
      act(client, line.split(" "));
      System.out.println("ok");
    }
    channel.shutdown();
  }
}
