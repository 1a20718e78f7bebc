package org.example.worker;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.example.worker.Intake.Waiting;

/**
 * Runs the tasks of one callback that come through Kafka.
 *
 * <pre>
 * poll -&gt; hold until due -&gt; claim, as many as have a thread -&gt; run -&gt; settle -&gt; commit
 * </pre>
 *
 * <p>The thread of {@link #run} polls and commits. It never waits for the service or for a handler,
 * so the worker stays in its group. Another thread claims, and each attempt has its own.
 *
 * <p>A message is done when its attempt is settled, or when its claim says to forget it. Until then
 * its offset is not committed: the next owner of the partition receives it again, and its claim is
 * refused while the attempt is alive.
 */
public final class KafkaWorker {
  private static final System.Logger LOG = System.getLogger(KafkaWorker.class.getName());
  private static final Duration POLL = Duration.ofMillis(500);
  private static final Duration CALL = Duration.ofSeconds(10);
  private static final Duration LAST_REPORTS = Duration.ofSeconds(5);

  private final Service service;
  private final Properties kafka;
  private final String callback;
  private final Handler handler;
  private final Duration drain;
  private final Intake intake;
  private final Offsets offsets = new Offsets();
  private final Queue<Waiting> done = new ConcurrentLinkedQueue<>();
  private final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
  private final AtomicLong unreadable = new AtomicLong();
  private final CountDownLatch ended = new CountDownLatch(1);
  private volatile Consumer<byte[], byte[]> consumer;
  private Signature signature;
  private boolean committing;

  /**
   * @param kafka properties of a consumer: at least {@code bootstrap.servers}
   * @param concurrency how many attempts run at once
   * @param drain how long they may go on after {@link #stop}
   */
  public KafkaWorker(
      Service service,
      Properties kafka,
      String callback,
      Handler handler,
      int concurrency,
      Duration drain) {
    this.service = service;
    this.callback = callback;
    this.handler = handler;
    this.drain = drain;
    this.intake = new Intake(concurrency, this::wake);
    this.kafka = new Properties();
    this.kafka.putAll(kafka);
    this.kafka.put("enable.auto.commit", "false");
    // Tasks that were published before the group began are to be run, too.
    this.kafka.put("auto.offset.reset", "earliest");
    this.kafka.put("max.poll.records", String.valueOf(concurrency));
    this.kafka.put("max.poll.interval.ms", "60000");
  }

  /** Passes messages that a service with this key has not signed. Call it before {@link #run}. */
  public KafkaWorker signedBy(String key) {
    signature = new Signature(key);
    return this;
  }

  /** Runs until the process is told to end, which waits for the attempts. */
  public void runUntilTerminated() throws IOException, InterruptedException {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop();
      try {
        ended.await();
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
      }
    }));
    run();
  }

  /** Takes no more tasks; {@link #run} returns when those that run have ended. */
  public void stop() {
    intake.stop();
  }

  /** How many messages were passed, because they are of a later format, or no tasks. */
  public long unreadable() {
    return unreadable.get();
  }

  /** Runs tasks until {@link #stop} is called. */
  public void run() throws IOException, InterruptedException {
    try {
      Optional<String> group = subscribe();
      if (group.isPresent()) {
        consume(group.get());
      }
    } finally {
      ended.countDown();
    }
  }

  /** Asks for the topics, so that they exist, until the service answers. Returns the group; none after the stop. */
  private Optional<String> subscribe() throws IOException, InterruptedException {
    Map<String, Object> request = Map.of("callbacks", List.of(callback));
    for (int failures = 0; !intake.isStopped(); failures++) {
      try {
        JsonNode answer = service.call("subscribe", request, CALL);
        return Optional.of(answer.path("groups").path(callback).asText());
      } catch (Service.Unavailable error) {
        LOG.log(Level.WARNING, "trying again: {0}", error.getMessage());
        intake.awaitStop(Service.backoff(failures, error));
      }
    }
    return Optional.empty();
  }

  private void consume(String group) {
    kafka.put("group.id", group);
    List<String> topics = Stream.of("high", "normal", "low").map(one -> group + "." + one).toList();
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (Heart heart = new Heart(service);
        KafkaConsumer<byte[], byte[]> opened = new KafkaConsumer<>(kafka, bytes, bytes)) {
      consumer = opened;
      opened.subscribe(topics, new Owner());
      Attempts attempts = new Attempts(service, intake, heart, handler, owned::contains, done::add);
      attempts.start();
      while (!intake.isStopped()) {
        turn();
      }
      drain(attempts, heart);
      commitNow();
    }
  }

  private void turn() {
    // While there is no room the messages stay with Kafka. Polling goes on, for the membership.
    if (intake.isFull()) {
      consumer.pause(consumer.assignment());
    } else {
      consumer.resume(consumer.paused());
    }
    try {
      consumer.poll(POLL).forEach(this::received);
    } catch (WakeupException woken) {
      // There is room, or the worker stops.
    }
    commit();
  }

  private void received(ConsumerRecord<byte[], byte[]> record) {
    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
    long offset = record.offset();
    offsets.received(partition, offset);
    try {
      if (signature != null && !signature.isOn(record)) {
        throw new TaskMessage.Unreadable("it has no signature of the service");
      }
      TaskMessage message = TaskMessage.read(record.headers(), record.value());
      if (!message.callback().equals(callback)) {
        throw new TaskMessage.Unreadable("it is of callback " + message.callback());
      }
      intake.add(new Waiting(partition, offset, record.value(), message, message.start(), 0));
    } catch (TaskMessage.Unreadable error) {
      String place = partition + " at " + offset;
      long count = unreadable.incrementAndGet();
      LOG.log(Level.ERROR, "passed a message ({0} so far), {1}: {2}", count, place, error.getMessage());
      offsets.done(partition, offset);
    }
  }

  /** One commit is on its way at a time; what is done meanwhile goes with the next one. */
  private void commit() {
    Map<TopicPartition, OffsetAndMetadata> marks = marks();
    if (committing || marks.isEmpty()) {
      return;
    }
    committing = true;
    consumer.commitAsync(marks, (sent, error) -> {
      committing = false;
      if (error == null) {
        offsets.committed(sent);
      } else {
        LOG.log(Level.WARNING, "cannot commit, trying again: {0}", error.getMessage());
      }
    });
  }

  private void commitNow() {
    Map<TopicPartition, OffsetAndMetadata> marks = marks();
    while (!marks.isEmpty()) {
      try {
        consumer.commitSync(marks, CALL);
        offsets.committed(marks);
        return;
      } catch (WakeupException woken) {
        // It was meant for a poll: once more.
      } catch (CommitFailedException | RetriableException error) {
        // The next owner receives the messages again, and its claims say to forget them.
        LOG.log(Level.WARNING, "cannot commit: {0}", error.getMessage());
        return;
      }
    }
  }

  private Map<TopicPartition, OffsetAndMetadata> marks() {
    for (Waiting one; (one = done.poll()) != null; ) {
      offsets.done(one.partition(), one.offset());
    }
    return offsets.toCommit();
  }

  /** Waits for the attempts that run. Those that take too long are interrupted, and tried again. */
  private void drain(Attempts attempts, Heart heart) {
    Instant patience = Instant.now().plus(drain);
    boolean interrupted = false;
    while (attempts.goOn()) {
      if (Instant.now().isAfter(patience)) {
        if (interrupted) {
          LOG.log(Level.WARNING, "{0} attempts are left to the end of their leases", intake.running());
          return;
        }
        heart.interruptAll();
        interrupted = true;
        patience = Instant.now().plus(LAST_REPORTS);
      }
      turn();
    }
  }

  private void wake() {
    Consumer<?, ?> woken = consumer;
    if (woken != null) {
      woken.wakeup();
    }
  }

  /** Follows which partitions are this worker's; called by {@code poll}. */
  private final class Owner implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      owned.addAll(partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      commitNow();
      onPartitionsLost(partitions);
    }

    /** Attempts that run go on, by their leases. What is claimed and has not begun is given back. */
    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      owned.removeAll(partitions);
      intake.drop(partitions);
      partitions.forEach(offsets::forget);
    }
  }
}
