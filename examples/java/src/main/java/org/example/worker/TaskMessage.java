package org.example.worker;

import com.google.protobuf.CodedInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.UUID;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * The fields that a worker needs of the protobuf message {@code tickwheel.v1.TaskMessage}.
 *
 * <p>A field is read by its number and wire type. Every other field is skipped, as the contract
 * (docs/kafka-message.md) asks for: later versions of the service add some.
 *
 * @param content empty where the service has the content apart: its claim brings it
 */
record TaskMessage(
    UUID id,
    int generation,
    int expectedAttempt,
    Instant start,
    Instant published,
    String callback,
    int maxAttempts,
    Duration heartbeatTimeout,
    Optional<Content> content) {

  static final String CONTENT_TYPE = "application/protobuf;type=tickwheel.v1.TaskMessage";

  private static final int VARINT = 0;
  private static final int BYTES = 2;

  /** The payload of a task and its media type. */
  record Content(byte[] payload, String contentType) {}

  /** A record that this worker must pass over. */
  static final class Unreadable extends Exception {
    private static final long serialVersionUID = 1;

    Unreadable(String reason) {
      super(reason, null, false, false);
    }
  }

  /**
   * Reads a record of a topic of the service.
   *
   * @throws Unreadable when it has a later format, or none
   */
  static TaskMessage read(Headers headers, byte[] value) throws Unreadable {
    Header format = headers.lastHeader("content-type");
    String type = format == null ? "none" : new String(format.value(), StandardCharsets.UTF_8);
    if (!type.equals(CONTENT_TYPE)) {
      throw new Unreadable("its content-type is " + type);
    }
    if (value == null) {
      throw new Unreadable("it has no value");
    }
    try {
      return decode(value);
    } catch (IOException error) {
      throw new Unreadable(error.getMessage());
    }
  }

  private static TaskMessage decode(byte[] value) throws IOException, Unreadable {
    byte[] id = {};
    int generation = 0;
    int expectedAttempt = 0;
    long start = 0;
    long published = 0;
    Spec spec = null;
    CodedInputStream in = CodedInputStream.newInstance(value);
    for (int tag; (tag = in.readTag()) != 0; ) {
      switch (tag) {
        case 1 << 3 | BYTES -> id = in.readByteArray();
        case 2 << 3 | VARINT -> generation = in.readUInt32();
        case 3 << 3 | VARINT -> expectedAttempt = in.readUInt32();
        case 4 << 3 | VARINT -> start = in.readInt64();
        case 5 << 3 | VARINT -> published = in.readInt64();
        case 6 << 3 | BYTES -> spec = Spec.decode(in.readByteArray());
        default -> in.skipField(tag);
      }
    }
    if (id.length != 16) {
      throw new Unreadable("its id has " + id.length + " bytes");
    }
    if (spec == null || spec.callback == null) {
      throw new Unreadable("it is of no callback");
    }
    ByteBuffer uuid = ByteBuffer.wrap(id);
    return new TaskMessage(
        new UUID(uuid.getLong(), uuid.getLong()),
        generation,
        expectedAttempt,
        Instant.ofEpochMilli(start),
        Instant.ofEpochMilli(published),
        spec.callback,
        spec.maxAttempts,
        Duration.ofMillis(spec.heartbeatTimeoutMillis),
        Optional.ofNullable(spec.content));
  }

  /** The task itself, {@code tickwheel.v1.TaskSpec}. */
  private record Spec(
      String callback, int maxAttempts, long heartbeatTimeoutMillis, Content content) {

    static Spec decode(byte[] value) throws IOException {
      String callback = null;
      int maxAttempts = 0;
      long heartbeatTimeout = 0;
      Content content = null;
      CodedInputStream in = CodedInputStream.newInstance(value);
      for (int tag; (tag = in.readTag()) != 0; ) {
        switch (tag) {
          case 1 << 3 | BYTES -> callback = decodeCallback(in.readByteArray());
          case 5 << 3 | VARINT -> maxAttempts = in.readUInt32();
          case 8 << 3 | VARINT -> heartbeatTimeout = in.readUInt64();
          case 12 << 3 | BYTES -> content = decodeContent(in.readByteArray());
          default -> in.skipField(tag);
        }
      }
      return new Spec(callback, maxAttempts, heartbeatTimeout, content);
    }

    private static String decodeCallback(byte[] value) throws IOException {
      String name = "";
      CodedInputStream in = CodedInputStream.newInstance(value);
      for (int tag; (tag = in.readTag()) != 0; ) {
        if (tag == (1 << 3 | BYTES)) {
          name = in.readStringRequireUtf8();
        } else {
          in.skipField(tag);
        }
      }
      return name;
    }

    private static Content decodeContent(byte[] value) throws IOException {
      byte[] payload = {};
      String contentType = "";
      CodedInputStream in = CodedInputStream.newInstance(value);
      for (int tag; (tag = in.readTag()) != 0; ) {
        switch (tag) {
          case 1 << 3 | BYTES -> payload = in.readByteArray();
          case 2 << 3 | BYTES -> contentType = in.readStringRequireUtf8();
          default -> in.skipField(tag);
        }
      }
      return new Content(payload, contentType);
    }
  }
}
