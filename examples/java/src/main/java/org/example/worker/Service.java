package org.example.worker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/** The calls of a worker to the service, over HTTP. */
final class Service {
  static final ObjectMapper JSON = new ObjectMapper();

  private static final Duration FIRST_WAIT = Duration.ofMillis(100);
  private static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(5))
          .build();
  private final URI server;
  private final String worker;
  private final String apiKey;

  /** A call that may succeed when it is made again. */
  static final class Unavailable extends IOException {
    private static final long serialVersionUID = 1;
    private final Duration retryAfter;

    Unavailable(String reason, Duration retryAfter) {
      super(reason);
      this.retryAfter = retryAfter;
    }

    /** How long the service asked to wait; zero where it said nothing. */
    Duration retryAfter() {
      return retryAfter;
    }
  }

  /** A call that the service refuses, however often it is made. */
  static final class Refused extends IOException {
    private static final long serialVersionUID = 1;

    Refused(String reason) {
      super(reason);
    }
  }

  /**
   * @param worker names this process for people: in lists of workers and in the attempts of a task
   * @param apiKey null where the service asks for none
   */
  Service(URI server, String worker, String apiKey) {
    this.server = server;
    this.worker = worker;
    this.apiKey = apiKey;
  }

  /** The service at {@code TICKWHEEL_SERVER}, with the key in {@code TICKWHEEL_API_KEY} if there is one. */
  static Service fromEnvironment() throws UnknownHostException {
    String server = System.getenv().getOrDefault("TICKWHEEL_SERVER", "http://127.0.0.1:7420");
    String worker = InetAddress.getLocalHost().getHostName() + "/" + ProcessHandle.current().pid();
    return new Service(URI.create(server), worker, System.getenv("TICKWHEEL_API_KEY"));
  }

  /**
   * Posts the fields, and the name of the worker, to {@code /v1/worker/<verb>}.
   *
   * @throws Unavailable when there was no answer, or a call may succeed later
   * @throws Refused when the request is wrong
   */
  JsonNode call(String verb, Map<String, ?> fields, Duration timeout)
      throws IOException, InterruptedException {
    Map<String, Object> body = new LinkedHashMap<>(fields);
    body.put("worker", worker);
    HttpRequest.Builder request =
        HttpRequest.newBuilder(server.resolve("/v1/worker/" + verb))
            .timeout(timeout)
            .header("content-type", "application/json")
            .POST(BodyPublishers.ofByteArray(JSON.writeValueAsBytes(body)));
    if (apiKey != null) {
      request.header("authorization", "Bearer " + apiKey);
    }
    try {
      HttpResponse<byte[]> answer = http.send(request.build(), BodyHandlers.ofByteArray());
      int status = answer.statusCode();
      if (status == 200) {
        return JSON.readTree(answer.body());
      }
      String reason = verb + ": " + status + ": " + detail(answer.body());
      if (status == 429 || status >= 500) {
        throw new Unavailable(reason, retryAfter(answer));
      }
      throw new Refused(reason);
    } catch (Unavailable | Refused told) {
      throw told;
    } catch (IOException error) {
      throw new Unavailable(verb + ": " + error, Duration.ZERO);
    }
  }

  /** Returns how long to wait after so many failures in a row: longer each time, with jitter. */
  static Duration backoff(int failures, IOException last) {
    long longest = FIRST_WAIT.toMillis() << Math.min(failures, 10);
    longest = Math.min(longest, LONGEST_WAIT.toMillis());
    Duration wait =
        Duration.ofMillis(ThreadLocalRandom.current().nextLong(longest / 2, longest + 1));
    Duration asked = last instanceof Unavailable away ? away.retryAfter() : Duration.ZERO;
    return asked.compareTo(wait) > 0 ? asked : wait;
  }

  private static Duration retryAfter(HttpResponse<?> answer) {
    try {
      return Duration.ofSeconds(answer.headers().firstValueAsLong("retry-after").orElse(0));
    } catch (NumberFormatException date) {
      return Duration.ZERO;
    }
  }

  private static String detail(byte[] problem) {
    try {
      return JSON.readTree(problem).path("detail").asText();
    } catch (IOException notJson) {
      return problem.length + " bytes";
    }
  }
}
