package org.example.worker;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** Tells which messages a service has written that signs them, with a key that both know. */
final class Signature {
  private final SecretKeySpec key;

  Signature(String key) {
    this.key = new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), "HmacSHA256");
  }

  /** Tells whether a record is as it was written: its topic, its key and its value. */
  boolean isOn(ConsumerRecord<byte[], byte[]> record) {
    Header header = record.headers().lastHeader("tickwheel-signature");
    if (header == null || record.value() == null) {
      return false;
    }
    byte[] name = record.key() == null ? new byte[0] : record.key();
    try {
      Mac code = Mac.getInstance("HmacSHA256");
      code.init(key);
      code.update((record.topic() + "\n" + name.length + "\n").getBytes(StandardCharsets.UTF_8));
      code.update(name);
      String signature = "v1," + Base64.getEncoder().encodeToString(code.doFinal(record.value()));
      // Takes as long for a wrong one, wherever it is wrong.
      return MessageDigest.isEqual(signature.getBytes(StandardCharsets.UTF_8), header.value());
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }
}
