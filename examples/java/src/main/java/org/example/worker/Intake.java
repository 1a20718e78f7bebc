package org.example.worker;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.kafka.common.TopicPartition;

/**
 * The messages that wait for their claim, and the threads that are free for them. At most as many
 * messages wait as there are threads, and those of one more poll.
 */
final class Intake {
  private static final int CLAIMS = 1000;
  private static final int CLAIM_BYTES = 8 << 20;

  /** A message that must not be claimed before an instant. */
  record Waiting(
      TopicPartition partition,
      long offset,
      byte[] value,
      TaskMessage message,
      Instant notBefore,
      int failures) {

    Waiting until(Instant later) {
      return new Waiting(partition, offset, value, message, later, failures);
    }

    Waiting failedUntil(Instant later) {
      return new Waiting(partition, offset, value, message, later, failures + 1);
    }

    private int rank() {
      String topic = partition.topic();
      return topic.endsWith(".high") ? 0 : topic.endsWith(".normal") ? 1 : 2;
    }
  }

  private final PriorityQueue<Waiting> held =
      new PriorityQueue<>(Comparator.comparing(Waiting::notBefore));
  private final PriorityQueue<Waiting> ready =
      new PriorityQueue<>(
          Comparator.comparingInt(Waiting::rank).thenComparing(one -> one.message().start()));
  private final int threads;
  private final Runnable changed;
  private int free;
  private boolean full;
  private boolean stopped;

  /** {@code changed} runs when there is room again, and for each thread that is free after the stop. */
  Intake(int threads, Runnable changed) {
    this.threads = threads;
    this.changed = changed;
    free = threads;
  }

  synchronized void add(Waiting one) {
    held.add(one);
    notifyAll();
  }

  /**
   * Waits for messages that are due and have a free thread, and takes both. Those of high priority
   * come first. None after {@link #stop}.
   */
  synchronized List<Waiting> take() throws InterruptedException {
    List<Waiting> batch = new ArrayList<>();
    while (!stopped && batch.isEmpty()) {
      Instant now = Instant.now();
      while (!held.isEmpty() && !held.peek().notBefore().isAfter(now)) {
        ready.add(held.poll());
      }
      int bytes = 0;
      while (free > 0 && !ready.isEmpty() && batch.size() < CLAIMS && bytes < CLAIM_BYTES) {
        Waiting next = ready.poll();
        bytes += next.value().length;
        batch.add(next);
        free--;
      }
      if (batch.isEmpty()) {
        // A millisecond more, because an instant is finer; zero waits until something changes.
        wait(held.isEmpty() ? 0 : Duration.between(now, held.peek().notBefore()).toMillis() + 1);
      }
    }
    if (full && held.size() + ready.size() < threads) {
      changed.run();
    }
    return batch;
  }

  /** Gives the thread of a message back. */
  synchronized void release() {
    free++;
    notifyAll();
    if (stopped) {
      changed.run();
    }
  }

  /** Tells whether no more messages are wanted now. */
  synchronized boolean isFull() {
    full = stopped || held.size() + ready.size() >= threads;
    return full;
  }

  synchronized int running() {
    return threads - free;
  }

  /** Drops what waits of partitions that have another owner now. */
  synchronized void drop(Collection<TopicPartition> partitions) {
    held.removeIf(one -> partitions.contains(one.partition()));
    ready.removeIf(one -> partitions.contains(one.partition()));
  }

  synchronized void stop() {
    stopped = true;
    notifyAll();
    changed.run();
  }

  /** Waits, but not beyond {@link #stop}. */
  synchronized void awaitStop(Duration limit) throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    for (long left; !stopped && (left = end - System.nanoTime()) > 0; ) {
      // Zero would wait for ever.
      wait(left / 1_000_000 + 1);
    }
  }

  synchronized boolean isStopped() {
    return stopped;
  }
}
