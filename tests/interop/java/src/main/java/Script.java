import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The script: read and checked as a whole before anything is done. */
final class Script {
  /** Keys of each verb, all of them needed. */
  private static final Map<String, List<String>> VERBS = Map.ofEntries(
      Map.entry("decode", List.of("message", "facts")), Map.entry("create", List.of("queue", "type")),
      Map.entry("send", List.of("queue", "count")), Map.entry("stream", List.of("queue", "count", "batch")),
      Map.entry("browse", List.of("queue", "first", "count")), Map.entry("receive", List.of("queue", "count")),
      Map.entry("settle", List.of("queue")), Map.entry("consume", List.of("queue", "count")),
      Map.entry("reply", List.of("queue")), Map.entry("answers", List.of("queue", "count")),
      Map.entry("expect", List.of("queue", "length")), Map.entry("kill", List.of()),
      Map.entry("handoff", List.of()), Map.entry("await", List.of()));
  private static final List<String> NUMBERS = List.of("count", "batch", "first", "length");
  private static final Map<String, List<String>> CHOICES = Map.of("type", List.of("queued_ack", "two_way"),
      "message", List.of("EnqueueRequest", "DequeueResponse", "ProduceResponse"));

  static final class Wrong extends Exception {
    Wrong(String text) {
      super(text);
    }
  }

  record Step(String at, String verb, Map<String, String> text) {
    String queue() {
      return text.getOrDefault("queue", "");
    }

    int number(String key) {
      return Integer.parseInt(text.get(key));
    }
  }

  static List<Step> parse(Path path) throws IOException, Wrong {
    List<Step> steps = new ArrayList<>();
    List<String> lines = Files.readAllLines(path);
    for (int i = 0; i < lines.size(); i++) {
      String line = lines.get(i).split("#", 2)[0].strip();
      if (!line.isEmpty()) {
        String at = path.getFileName() + ":" + (i + 1);
        String[] words = line.split("\\s+");
        try {
          steps.add(new Step(at, words[0], values(words[0], List.of(words).subList(1, words.length))));
        } catch (Wrong wrong) {
          throw new Wrong(at + ": " + wrong.getMessage());
        }
      }
    }
    return steps;
  }

  private static Map<String, String> values(String verb, List<String> words) throws Wrong {
    List<String> keys = VERBS.get(verb);
    if (keys == null) {
      throw new Wrong("unknown verb " + verb);
    }
    Map<String, String> text = new HashMap<>();
    for (String word : words) {
      int cut = word.indexOf('=');
      if (cut < 1 || cut == word.length() - 1) {
        throw new Wrong(word + " is not key=value");
      }
      String key = word.substring(0, cut), value = word.substring(cut + 1);
      if (!keys.contains(key)) {
        throw new Wrong(verb + " has no " + key + "=");
      } else if (NUMBERS.contains(key) && !value.matches("[0-9]{1,7}")) {
        throw new Wrong(word + " is not a number");
      } else if (CHOICES.containsKey(key) && !CHOICES.get(key).contains(value)) {
        throw new Wrong(word + " is none of " + String.join(", ", CHOICES.get(key)));
      } else if (text.put(key, value) != null) {
        throw new Wrong(key + "= is given twice");
      }
    }
    for (String key : keys) {
      if (!text.containsKey(key)) {
        throw new Wrong(verb + " needs " + key + "=");
      }
    }
    return text;
  }
}
