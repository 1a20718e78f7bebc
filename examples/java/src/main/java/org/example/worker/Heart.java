package org.example.worker;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Sends the heartbeats of all attempts, from a thread of its own: a handler that is busy loses no
 * lease. A second thread ends attempts whose lease is over, also while a call hangs.
 */
final class Heart implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(Heart.class.getName());
  private static final long TICK_MILLIS = 250;
  private static final int BATCH = 1000;
  private static final Duration LONGEST_CALL = Duration.ofSeconds(5);

  private final Service service;
  private final Set<Task> tasks = ConcurrentHashMap.newKeySet();
  private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(2);

  Heart(Service service) {
    this.service = service;
    threads.scheduleWithFixedDelay(this::beat, TICK_MILLIS, TICK_MILLIS, TimeUnit.MILLISECONDS);
    threads.scheduleWithFixedDelay(this::watch, TICK_MILLIS, TICK_MILLIS, TimeUnit.MILLISECONDS);
  }

  void add(Task task) {
    tasks.add(task);
  }

  void remove(Task task) {
    tasks.remove(task);
  }

  /** Interrupts the handlers of all attempts. */
  void interruptAll() {
    tasks.forEach(Task::interrupt);
  }

  @Override
  public void close() {
    threads.shutdownNow();
  }

  private void watch() {
    long now = System.nanoTime();
    for (Task task : tasks) {
      if (task.overdue(now) >= 0 && task.lose()) {
        LOG.log(Level.WARNING, "task {0}: the lease of attempt {1} is over", task.id(), task.attempt());
      }
    }
  }

  private void beat() {
    long sent = System.nanoTime();
    List<Task> due = tasks.stream().filter(task -> task.isDue(sent)).limit(BATCH).toList();
    if (due.isEmpty()) {
      return;
    }
    try {
      List<Map<String, Object>> items = due.stream().map(Heart::item).toList();
      JsonNode results = service.call("heartbeat", Map.of("tasks", items), callLimit()).path("results");
      for (int i = 0; i < due.size(); i++) {
        answered(due.get(i), results.path(i), sent);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    } catch (IOException | RuntimeException error) {
      // The next tick tries again. An exception that left this method would end the heartbeats.
      LOG.log(Level.WARNING, "no heartbeat: {0}", error.toString());
    }
  }

  private static Map<String, Object> item(Task task) {
    return Map.of("id", task.id().toString(), "attempt", task.attempt());
  }

  private static void answered(Task task, JsonNode result, long sent) {
    switch (result.path("status").asText()) {
      case "ok" -> task.extend(sent);
      case "cancel_requested" -> {
        task.extend(sent);
        task.cancel();
      }
      case "lost" -> {
        if (task.lose()) {
          String reason = result.path("reason").asText();
          LOG.log(Level.WARNING, "task {0}: attempt {1} is lost: {2}", task.id(), task.attempt(), reason);
        }
      }
      default -> LOG.log(Level.WARNING, "task {0}: no heartbeat: {1}", task.id(), result);
    }
  }

  /** A call that hangs must leave time for another one, whichever lease is the shortest. */
  private Duration callLimit() {
    return tasks.stream()
        .map(task -> task.heartbeatTimeout().dividedBy(3))
        .reduce(LONGEST_CALL, (one, other) -> one.compareTo(other) < 0 ? one : other);
  }
}
