package org.example.worker;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;

/** Runs the callback {@code greet}: put your own in its place. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws IOException, InterruptedException {
    Properties kafka = new Properties();
    kafka.put("bootstrap.servers", System.getenv().getOrDefault("TICKWHEEL_KAFKA", "127.0.0.1:9092"));
    if (args.length > 0) {
      try (InputStream file = Files.newInputStream(Path.of(args[0]))) {
        kafka.load(file);
      }
    }
    Service service = Service.fromEnvironment();
    KafkaWorker worker = new KafkaWorker(service, kafka, "greet", Main::greet, 8, Duration.ofSeconds(20));
    String key = System.getenv("TICKWHEEL_SIGNING_KEY");
    if (key != null) {
      worker.signedBy(key);
    }
    worker.runUntilTerminated();
  }

  private static Outcome greet(Task task) throws IOException {
    String name = task.json().path("name").asText();
    if (name.isEmpty()) {
      return Outcome.failed("the payload has no name");
    }
    return Outcome.succeeded(Map.of("greeting", "Hello, " + name + "!"));
  }
}
