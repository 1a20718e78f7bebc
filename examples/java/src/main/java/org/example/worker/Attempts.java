package org.example.worker;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.kafka.common.TopicPartition;
import org.example.worker.Intake.Waiting;
import org.example.worker.TaskMessage.Content;

/** Claims messages, runs the handler for those that are this worker's, and reports how they ended. */
final class Attempts {
  private static final System.Logger LOG = System.getLogger(Attempts.class.getName());
  private static final Duration CALL = Duration.ofSeconds(10);
  private static final Duration LONGEST_HOLD = Duration.ofSeconds(5);
  private static final Duration SETTLE_GRACE = Duration.ofSeconds(30);
  private static final int CLAIM_FAILURES = 5;

  private final Service service;
  private final Intake intake;
  private final Heart heart;
  private final Handler handler;
  private final Predicate<TopicPartition> owned;
  private final Consumer<Waiting> done;
  private final ExecutorService threads = Executors.newCachedThreadPool(Attempts::daemon);
  private final Thread claims = daemon(this::claimAll);

  /**
   * @param owned tells whether a partition is still this worker's
   * @param done takes each message that is not needed any more
   */
  Attempts(
      Service service,
      Intake intake,
      Heart heart,
      Handler handler,
      Predicate<TopicPartition> owned,
      Consumer<Waiting> done) {
    this.service = service;
    this.intake = intake;
    this.heart = heart;
    this.handler = handler;
    this.owned = owned;
    this.done = done;
  }

  void start() {
    claims.start();
  }

  /** Tells whether any runs, or may begin. */
  boolean goOn() {
    return claims.isAlive() || intake.running() > 0;
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  }

  private void claimAll() {
    try {
      for (List<Waiting> batch; !(batch = intake.take()).isEmpty(); ) {
        claim(batch);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  private void claim(List<Waiting> batch) throws InterruptedException {
    List<Map<String, Object>> items = batch.stream().map(Attempts::item).toList();
    boolean apart = batch.stream().anyMatch(one -> one.message().content().isEmpty());
    long sent = System.nanoTime();
    try {
      Map<String, Object> request = Map.of("messages", items, "view", apart ? "FULL" : "BASIC");
      JsonNode results = service.call("claim", request, CALL).path("results");
      if (results.size() != batch.size()) {
        throw new Service.Unavailable("claims are not answered one by one", Duration.ZERO);
      }
      for (int i = 0; i < batch.size(); i++) {
        answered(batch.get(i), results.path(i), sent);
      }
    } catch (IOException error) {
      batch.forEach(one -> failed(one, error));
    }
  }

  private static Map<String, Object> item(Waiting one) {
    TaskMessage message = one.message();
    return Map.of(
        "id", message.id().toString(),
        "generation", message.generation(),
        "expected_attempt", message.expectedAttempt(),
        // Spares the service a read.
        "message", Base64.getEncoder().encodeToString(one.value()));
  }

  private void answered(Waiting one, JsonNode result, long sent) {
    String status = result.path("status").asText();
    switch (status) {
      case "claimed" -> {
        JsonNode claimed = result.path("task");
        Content content = one.message().content().orElseGet(() -> content(claimed));
        Task task = new Task(one.message(), content, claimed.path("attempt").asInt(), sent);
        heart.add(task);
        threads.execute(() -> attempt(one, task));
      }
      case "early", "limited" -> {
        Instant until = notBefore(result);
        Instant latest = Instant.now().plus(LONGEST_HOLD);
        if (!until.isAfter(latest)) {
          hold(one.until(until));
        } else if (status.equals("limited")) {
          hold(one.until(latest));
        } else {
          // Early by far: the service publishes the task again at its time.
          forget(one);
        }
      }
      case "error" -> failed(one, problem(result.path("error")));
      // stale, held, gated, behind, and what later versions say: the service comes back to the task.
      default -> forget(one);
    }
  }

  private static Instant notBefore(JsonNode result) {
    try {
      // The clock of the service may be behind this one.
      Instant soon = Instant.now().plusMillis(20);
      Instant told = Instant.parse(result.path("not_before").asText());
      return told.isAfter(soon) ? told : soon;
    } catch (DateTimeParseException notTold) {
      return Instant.now().plus(LONGEST_HOLD);
    }
  }

  private static IOException problem(JsonNode problem) {
    String detail = problem.path("detail").asText();
    return problem.path("retryable").asBoolean()
        ? new Service.Unavailable(detail, Duration.ZERO)
        : new Service.Refused(detail);
  }

  private void failed(Waiting one, IOException error) {
    LOG.log(Level.WARNING, "task {0}: no claim: {1}", one.message().id(), error.getMessage());
    if (error instanceof Service.Unavailable && one.failures() < CLAIM_FAILURES) {
      hold(one.failedUntil(Instant.now().plus(Service.backoff(one.failures(), error))));
    } else {
      // The service comes back to the task.
      forget(one);
    }
  }

  private void hold(Waiting one) {
    intake.add(one);
    intake.release();
  }

  private void forget(Waiting one) {
    done.accept(one);
    intake.release();
  }

  private void attempt(Waiting one, Task task) {
    try {
      // Given back before it has begun, it is run by another worker at once, and no attempt is spent.
      boolean begins = !intake.isStopped() && owned.test(one.partition());
      settle(task, begins ? outcome(task) : Outcome.snoozed(Duration.ZERO));
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    } finally {
      heart.remove(task);
      forget(one);
    }
  }

  private Outcome outcome(Task task) {
    task.begin();
    try {
      return handler.run(task);
    } catch (InterruptedException stopped) {
      return Outcome.retry("the worker was stopped", Duration.ZERO);
    } catch (Exception | StackOverflowError error) {
      LOG.log(Level.WARNING, "task " + task.id() + " failed", error);
      return Outcome.retry(error.toString());
    } finally {
      task.end();
    }
  }

  /**
   * Reports until it is answered, and until the lease has been over for a while: work that is done
   * must not be done again because its report was late.
   */
  private void settle(Task task, Outcome outcome) throws InterruptedException {
    Map<String, Object> request = Map.of("tasks", List.of(outcome.report(task)));
    for (int failures = 0; task.overdue(System.nanoTime()) < SETTLE_GRACE.toNanos(); failures++) {
      IOException failure;
      try {
        JsonNode result = service.call("settle", request, CALL).path("results").path(0);
        String status = result.path("status").asText();
        if (status.equals("ok")) {
          return;
        }
        failure = status.equals("lost")
            ? new Service.Refused("lost: " + result.path("reason").asText())
            : problem(result.path("error"));
      } catch (IOException error) {
        failure = error;
      }
      LOG.log(Level.WARNING, "task {0}: no report: {1}", task.id(), failure.getMessage());
      if (failure instanceof Service.Refused) {
        return;
      }
      Thread.sleep(Service.backoff(failures, failure).toMillis());
    }
  }

  /** The content that came with a claim, because the message has none. */
  private static Content content(JsonNode claimed) {
    JsonNode base64 = claimed.path("payload_base64");
    byte[] payload = base64.isMissingNode()
        ? claimed.path("payload").toString().getBytes(StandardCharsets.UTF_8)
        : Base64.getDecoder().decode(base64.asText());
    return new Content(payload, claimed.path("content_type").asText());
  }
}
