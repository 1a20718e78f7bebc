package org.example.worker;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The offsets that may be committed. Messages are done in any order; the mark of a partition passes
 * none that is not done. Not thread-safe.
 */
final class Offsets {
  private static final class Partition {
    final TreeSet<Long> open = new TreeSet<>();
    long next;
    long committed;

    /** A consumer begins where its group has committed, so there is nothing to commit yet. */
    Partition(long first) {
      committed = first;
    }

    long mark() {
      return open.isEmpty() ? next : open.first();
    }
  }

  private final Map<TopicPartition, Partition> partitions = new HashMap<>();

  void received(TopicPartition partition, long offset) {
    Partition of = partitions.computeIfAbsent(partition, unused -> new Partition(offset));
    of.open.add(offset);
    of.next = offset + 1;
  }

  /** A message of a partition that was taken away meanwhile is left to its next owner. */
  void done(TopicPartition partition, long offset) {
    Partition of = partitions.get(partition);
    if (of != null) {
      of.open.remove(offset);
    }
  }

  void forget(TopicPartition partition) {
    partitions.remove(partition);
  }

  /** Returns the marks that have moved since they were committed last. */
  Map<TopicPartition, OffsetAndMetadata> toCommit() {
    Map<TopicPartition, OffsetAndMetadata> marks = new HashMap<>();
    partitions.forEach(
        (partition, of) -> {
          if (of.mark() > of.committed) {
            marks.put(partition, new OffsetAndMetadata(of.mark()));
          }
        });
    return marks;
  }

  void committed(Map<TopicPartition, OffsetAndMetadata> marks) {
    marks.forEach(
        (partition, mark) -> {
          Partition of = partitions.get(partition);
          if (of != null) {
            of.committed = Math.max(of.committed, mark.offset());
          }
        });
  }
}
