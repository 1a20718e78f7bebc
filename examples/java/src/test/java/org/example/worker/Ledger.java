package org.example.worker;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;

/**
 * A worker of the callback {@code ledger}, for a test against real servers: it writes each begin and
 * each end of an attempt to the file that its argument names.
 */
final class Ledger {
  private final OutputStream file;

  private Ledger(OutputStream file) {
    this.file = file;
  }

  public static void main(String[] args) throws IOException, InterruptedException {
    Properties kafka = new Properties();
    kafka.put("bootstrap.servers", System.getenv("TICKWHEEL_KAFKA"));
    kafka.put("session.timeout.ms", "6000");
    try (OutputStream file = new FileOutputStream(args[0], true)) {
      Ledger ledger = new Ledger(file);
      Duration drain = Duration.ofSeconds(20);
      new KafkaWorker(Service.fromEnvironment(), kafka, "ledger", ledger::run, 8, drain)
          .runUntilTerminated();
    }
  }

  private Outcome run(Task task) throws IOException, InterruptedException {
    write("begin", task);
    try {
      Thread.sleep(task.json().path("work_ms").asLong());
    } finally {
      write("end", task);
    }
    return switch (task.json().path("outcome").asText()) {
      case "fail" -> Outcome.failed("as it was asked to");
      case "retry" -> task.attempt() > 1
          ? Outcome.succeeded(task.attempt())
          : Outcome.retry("once, as it was asked to", Duration.ofSeconds(1));
      default -> Outcome.succeeded(Map.of("size", task.payload().length));
    };
  }

  /** One write a line, so that a line is whole however the process ends. */
  private synchronized void write(String what, Task task) throws IOException {
    String line = String.format(
        Locale.ROOT, "%s %s %d %d%n", what, task.id(), task.attempt(), System.currentTimeMillis());
    file.write(line.getBytes(StandardCharsets.UTF_8));
  }
}
