package org.example.worker;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What the test against real servers does with the broker itself.
 *
 * <pre>
 * disturb TOPIC  publishes to each partition a message of a later format, and one that is none
 * lag GROUP      prints how many messages of each partition are not committed
 * </pre>
 */
final class Broker {
  private Broker() {}

  public static void main(String[] args) throws Exception {
    Properties broker = new Properties();
    broker.put("bootstrap.servers", System.getenv("TICKWHEEL_KAFKA"));
    switch (args[0]) {
      case "disturb" -> disturb(broker, args[1]);
      case "lag" -> lag(broker, args[1]);
      default -> throw new IllegalArgumentException(args[0]);
    }
  }

  private static void disturb(Properties broker, String topic) throws Exception {
    ByteArraySerializer bytes = new ByteArraySerializer();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(broker, bytes, bytes)) {
      for (var partition : producer.partitionsFor(topic)) {
        String later = TaskMessage.CONTENT_TYPE.replace(".v1.", ".v2.");
        for (String type : List.of(later, TaskMessage.CONTENT_TYPE)) {
          byte[] value = "not a task".getBytes(StandardCharsets.UTF_8);
          ProducerRecord<byte[], byte[]> message =
              new ProducerRecord<>(topic, partition.partition(), null, value);
          message.headers().add("content-type", type.getBytes(StandardCharsets.UTF_8));
          producer.send(message).get();
        }
      }
    }
  }

  private static void lag(Properties broker, String group) throws Exception {
    try (Admin admin = Admin.create(broker)) {
      Map<TopicPartition, OffsetAndMetadata> committed =
          admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
      Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
      var names = admin.listTopics().names().get().stream().filter(one -> one.startsWith(group + "."));
      for (var topic : admin.describeTopics(names.toList()).allTopicNames().get().values()) {
        topic
            .partitions()
            .forEach(one -> asked.put(new TopicPartition(topic.name(), one.partition()), OffsetSpec.latest()));
      }
      Map<String, Long> lag = new TreeMap<>();
      admin.listOffsets(asked).all().get().forEach((partition, end) -> {
        OffsetAndMetadata mark = committed.get(partition);
        lag.put(partition.toString(), end.offset() - (mark == null ? 0 : mark.offset()));
      });
      lag.forEach((partition, messages) -> System.out.println(partition + " " + messages));
    }
  }
}
