package org.example.worker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HexFormat;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The golden messages of the service, which every reader is checked against. */
class TaskMessageTest {
  private static JsonNode golden() throws IOException {
    return Service.JSON.readTree(Path.of(System.getProperty("golden")).toFile()).path("messages");
  }

  private static Headers headers(JsonNode message) {
    Headers headers = new RecordHeaders();
    message
        .path("headers")
        .properties()
        .forEach(one -> headers.add(one.getKey(), one.getValue().asText().getBytes(StandardCharsets.UTF_8)));
    return headers;
  }

  @TestFactory
  Stream<DynamicTest> goldenBytesAreReadAsTheirFields() throws IOException {
    return StreamSupport.stream(golden().spliterator(), false)
        .map(one -> DynamicTest.dynamicTest(one.path("name").asText(), () -> check(one)));
  }

  private static void check(JsonNode golden) throws TaskMessage.Unreadable {
    byte[] value = HexFormat.of().parseHex(golden.path("value").asText());
    JsonNode expected = golden.path("decoded");
    if (expected.isNull()) {
      assertThrows(TaskMessage.Unreadable.class, () -> TaskMessage.read(headers(golden), value));
      return;
    }
    TaskMessage read = TaskMessage.read(headers(golden), value);
    JsonNode spec = expected.path("spec");
    assertEquals(expected.path("id").asText(), read.id().toString());
    assertEquals(expected.path("generation").asInt(), read.generation());
    assertEquals(expected.path("expected_attempt").asInt(), read.expectedAttempt());
    assertEquals(expected.path("start_time_ms").asLong(), read.start().toEpochMilli());
    assertEquals(expected.path("publish_time_ms").asLong(), read.published().toEpochMilli());
    assertEquals(spec.path("callback").asText(), read.callback());
    assertEquals(spec.path("max_attempts").asInt(), read.maxAttempts());
    assertEquals(spec.path("heartbeat_timeout_ms").asLong(), read.heartbeatTimeout().toMillis());
    JsonNode content = spec.path("content");
    assertEquals(content.isNull(), read.content().isEmpty());
    if (!content.isNull()) {
      byte[] payload = Base64.getDecoder().decode(content.path("payload").asText());
      assertArrayEquals(payload, read.content().orElseThrow().payload());
      assertEquals(content.path("content_type").asText(), read.content().orElseThrow().contentType());
    }
  }

  @Test
  void messagesWithoutValueOrFormatArePassed() throws IOException {
    JsonNode usual = golden().path(1);
    byte[] value = HexFormat.of().parseHex(usual.path("value").asText());
    assertFalse(usual.path("decoded").isNull());
    assertThrows(TaskMessage.Unreadable.class, () -> TaskMessage.read(headers(usual), null));
    assertThrows(TaskMessage.Unreadable.class, () -> TaskMessage.read(new RecordHeaders(), value));
  }
}
