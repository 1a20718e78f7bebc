package org.example.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.example.worker.Intake.Waiting;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The answers of a service, one after the other, and what the worker makes of them. */
@Timeout(30)
class AttemptsTest {
  private static final UUID ID = UUID.fromString("01b8dac5-b4fa-8201-8123-456789abcdef");
  private static final TopicPartition PARTITION = new TopicPartition("tickwheel.greet.normal", 1);
  private static final String OK = "{\"status\": \"ok\"}";
  private static final String CLAIMED = "{\"status\": \"claimed\", \"task\": {\"attempt\": 1}}";
  private static final String AWAY = "503";

  private final Map<String, Queue<String>> answers = new ConcurrentHashMap<>();
  private final BlockingQueue<JsonNode> settled = new LinkedBlockingQueue<>();
  private final BlockingQueue<Waiting> done = new LinkedBlockingQueue<>();
  private final BlockingQueue<Integer> ran = new LinkedBlockingQueue<>();
  private final Intake intake = new Intake(2, () -> {});
  private HttpServer server;
  private Heart heart;

  @BeforeEach
  void start() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/v1/worker/", this::answer);
    server.start();
  }

  @AfterEach
  void stop() {
    intake.stop();
    heart.close();
    server.stop(0);
  }

  private void answer(HttpExchange call) throws IOException {
    String verb = call.getRequestURI().getPath().replace("/v1/worker/", "");
    JsonNode request = Service.JSON.readTree(call.getRequestBody());
    String answer = answers.get(verb).remove();
    if (verb.equals("settle") && !answer.equals(AWAY)) {
      settled.add(request.path("tasks").path(0));
    }
    byte[] body = ("{\"results\": [" + answer + "]}").getBytes(StandardCharsets.UTF_8);
    call.sendResponseHeaders(answer.equals(AWAY) ? 503 : 200, body.length);
    try (call) {
      call.getResponseBody().write(body);
    }
  }

  private Waiting message() {
    TaskMessage.Content content = new TaskMessage.Content(new byte[0], "application/json");
    TaskMessage message =
        new TaskMessage(
            ID, 0, 0, Instant.EPOCH, Instant.EPOCH, "greet", 3, Duration.ofSeconds(30), Optional.of(content));
    return new Waiting(PARTITION, 7, new byte[] {1}, message, Instant.EPOCH, 0);
  }

  private void work(boolean owned, List<String> claims, List<String> settles) throws Exception {
    answers.put("claim", new ConcurrentLinkedQueue<>(claims));
    answers.put("settle", new ConcurrentLinkedQueue<>(settles));
    URI address = URI.create("http://localhost:" + server.getAddress().getPort());
    Service service = new Service(address, "test", null);
    heart = new Heart(service);
    Handler handler = task -> {
      ran.add(task.attempt());
      return Outcome.succeeded(Map.of("a", 1));
    };
    Attempts attempts = new Attempts(service, intake, heart, handler, partition -> owned, done::add);
    attempts.start();
    intake.add(message());
    assertEquals(7, done.poll(20, TimeUnit.SECONDS).offset());
    intake.stop();
    while (attempts.goOn()) {
      Thread.onSpinWait();
    }
    assertTrue(answers.values().stream().allMatch(Queue::isEmpty), answers.toString());
  }

  @Test
  void aClaimedTaskRunsAndItsResultIsReported() throws Exception {
    work(true, List.of(CLAIMED), List.of(OK));
    assertEquals(List.of(1), List.copyOf(ran));
    JsonNode report = settled.remove();
    assertEquals("succeeded", report.path("outcome").asText());
    assertEquals(ID.toString(), report.path("id").asText());
    assertEquals(1, report.path("result").path("a").asInt());
  }

  @Test
  void aTaskOfAPartitionThatWasTakenAwayIsGivenBackUnbegun() throws Exception {
    work(false, List.of(CLAIMED), List.of(OK));
    assertEquals(List.of(), List.copyOf(ran));
    JsonNode report = settled.remove();
    assertEquals("snoozed", report.path("outcome").asText());
    assertEquals("0ms", report.path("delay").asText());
  }

  @ParameterizedTest
  @ValueSource(strings = {"stale", "held", "gated", "behind", "early", "of_a_later_version"})
  void anAnswerThatIsNoClaimIsForgotten(String status) throws Exception {
    String answer = "{\"status\": \"%s\", \"not_before\": \"9999-01-01T00:00:00Z\"}";
    work(true, List.of(answer.formatted(status)), List.of());
    assertEquals(List.of(), List.copyOf(ran));
  }

  @Test
  void aClaimIsMadeAgainWhileTheServiceIsAwayAndWhileALimitHolds() throws Exception {
    String limited = "{\"status\": \"limited\", \"not_before\": \"" + Instant.now().plusMillis(200) + "\"}";
    String busy = "{\"status\": \"error\", \"error\": {\"retryable\": true, \"detail\": \"busy\"}}";
    work(true, List.of(AWAY, limited, busy, CLAIMED), List.of(OK));
    assertEquals(List.of(1), List.copyOf(ran));
  }

  @Test
  void aClaimThatIsRefusedIsForgotten() throws Exception {
    work(true, List.of("{\"status\": \"error\", \"error\": {\"retryable\": false}}"), List.of());
    assertEquals(List.of(), List.copyOf(ran));
  }

  @Test
  void aReportIsRepeatedUntilItIsAnswered() throws Exception {
    work(true, List.of(CLAIMED), List.of(AWAY, AWAY, OK));
    assertEquals(List.of(1), List.copyOf(ran));
    assertEquals(1, settled.size());
  }
}
