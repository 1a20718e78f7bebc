package org.example.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class SignatureTest {
  private static final String KEY = "an old key of thirty bytes....";
  private static final String SIGNED = "v1,HynjlbUhdNO+j1buhBZUe6sSqrxJaz4G3dAFngOrBoQ=";

  private static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  private static boolean believed(String secret, String topic, String key, String value, String header) {
    Headers headers = new RecordHeaders();
    if (header != null) {
      headers.add("tickwheel-signature", bytes(header));
    }
    return new Signature(secret)
        .isOn(
            new ConsumerRecord<>(
                topic, 0, 0, 0, TimestampType.CREATE_TIME, 0, 0, bytes(key), bytes(value), headers, Optional.empty()));
  }

  @Test
  void aMessageIsBelievedUnlessSomethingOfItWasChanged() {
    String topic = "tickwheel.mail.normal";
    assertEquals(true, believed(KEY, topic, "k1", "hello", SIGNED));
    assertEquals(false, believed("another key of thirty bytes...", topic, "k1", "hello", SIGNED));
    assertEquals(false, believed(KEY, "tickwheel.mail.high", "k1", "hello", SIGNED));
    assertEquals(false, believed(KEY, topic, "k1h", "ello", SIGNED));
    assertEquals(false, believed(KEY, topic, null, "hello", SIGNED));
    assertEquals(false, believed(KEY, topic, "k1", "hello!", SIGNED));
    assertEquals(false, believed(KEY, topic, "k1", null, SIGNED));
    assertEquals(false, believed(KEY, topic, "k1", "hello", "v1,????"));
    assertEquals(false, believed(KEY, topic, "k1", "hello", null));
  }
}
