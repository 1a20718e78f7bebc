package org.example.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class OffsetsTest {
  private static final TopicPartition ONE = new TopicPartition("tickwheel.greet.normal", 1);
  private static final TopicPartition TWO = new TopicPartition("tickwheel.greet.normal", 2);

  private final Offsets offsets = new Offsets();

  private Map<TopicPartition, Long> marks() {
    Map<TopicPartition, Long> marks = new HashMap<>();
    offsets.toCommit().forEach((partition, mark) -> marks.put(partition, mark.offset()));
    return marks;
  }

  @Test
  void noMarkPassesAMessageThatIsNotDone() {
    for (long offset : new long[] {5, 6, 9}) {
      offsets.received(ONE, offset);
    }
    offsets.received(TWO, 0);
    assertEquals(Map.of(), marks());
    offsets.done(ONE, 6);
    assertEquals(Map.of(), marks());
    offsets.done(ONE, 5);
    offsets.done(TWO, 0);
    assertEquals(Map.of(ONE, 9L, TWO, 1L), marks());
    offsets.done(ONE, 9);
    assertEquals(Map.of(ONE, 10L, TWO, 1L), marks());
  }

  @Test
  void aMarkIsCommittedOnce() {
    offsets.received(ONE, 5);
    offsets.done(ONE, 5);
    offsets.committed(Map.of(ONE, new OffsetAndMetadata(6)));
    assertEquals(Map.of(), marks());
  }

  @Test
  void aPartitionThatWasTakenAwayIsLeftToItsNextOwner() {
    offsets.received(ONE, 5);
    offsets.forget(ONE);
    offsets.done(ONE, 5);
    offsets.committed(Map.of(ONE, new OffsetAndMetadata(6)));
    assertEquals(Map.of(), marks());
    offsets.received(ONE, 5);
    assertEquals(Map.of(), marks());
    offsets.done(ONE, 5);
    assertEquals(Map.of(ONE, 6L), marks());
  }
}
