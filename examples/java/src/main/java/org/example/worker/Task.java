package org.example.worker;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.UUID;

/**
 * An attempt of a task, which is this process's alone while its heartbeats arrive.
 *
 * <p>{@link #id} and {@link #attempt} together are the fencing token: hand both to whatever the
 * handler changes.
 */
public final class Task {
  private final TaskMessage message;
  private final TaskMessage.Content content;
  private final int attempt;
  private final Duration heartbeatTimeout;
  private long leaseUntil;
  private long beatAt;
  private Thread thread;
  private boolean cancelled;
  private boolean lost;

  /** The claim was sent at {@code sent}, by {@link System#nanoTime}: the lease begins there. */
  Task(TaskMessage message, TaskMessage.Content content, int attempt, long sent) {
    this.message = message;
    this.content = content;
    this.attempt = attempt;
    this.heartbeatTimeout = message.heartbeatTimeout();
    leaseUntil = leaseFrom(sent);
    beatAt = sent + heartbeatTimeout.toNanos() / 3;
  }

  public UUID id() {
    return message.id();
  }

  public int attempt() {
    return attempt;
  }

  /** When the task was to start. */
  public Instant start() {
    return message.start();
  }

  public int maxAttempts() {
    return message.maxAttempts();
  }

  public byte[] payload() {
    return content.payload();
  }

  public String contentType() {
    return content.contentType();
  }

  /** Reads a payload of {@code application/json}. */
  public JsonNode json() throws IOException {
    return Service.JSON.readTree(content.payload());
  }

  /** Tells whether somebody asked to cancel the task: the handler should end soon. */
  public synchronized boolean isCancelled() {
    return cancelled;
  }

  Duration heartbeatTimeout() {
    return heartbeatTimeout;
  }

  /** The thread of the handler is interrupted when the attempt must end. */
  synchronized void begin() {
    thread = Thread.currentThread();
    if (lost) {
      thread.interrupt();
    }
  }

  /** From here on the thread is not interrupted any more. */
  synchronized void end() {
    thread = null;
    Thread.interrupted();
  }

  synchronized void interrupt() {
    if (thread != null) {
      thread.interrupt();
    }
  }

  /** Another worker may run the task by now: nothing that the handler does counts any more. */
  synchronized boolean lose() {
    boolean first = !lost;
    lost = true;
    interrupt();
    return first;
  }

  synchronized void cancel() {
    cancelled = true;
  }

  synchronized boolean isLost() {
    return lost;
  }

  /** A heartbeat that was sent then has been recorded. One that is answered too late counts nothing. */
  synchronized void extend(long sent) {
    beatAt = sent + heartbeatTimeout.toNanos() / 3;
    if (System.nanoTime() - leaseUntil < 0) {
      leaseUntil = leaseFrom(sent);
    }
  }

  synchronized boolean isDue(long now) {
    return now - beatAt >= 0;
  }

  /** How long the lease has been over, in nanoseconds; negative before its end. */
  synchronized long overdue(long now) {
    return now - leaseUntil;
  }

  /** The worker ends its half of the lease earlier than the service, so that the two never overlap. */
  private long leaseFrom(long sent) {
    long timeout = heartbeatTimeout.toNanos();
    return sent + timeout - Math.min(Duration.ofSeconds(1).toNanos(), timeout / 4);
  }
}
