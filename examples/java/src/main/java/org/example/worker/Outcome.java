package org.example.worker;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** How an attempt ended, in the fields of a report to the service. */
public final class Outcome {
  private final Map<String, Object> fields = new LinkedHashMap<>();

  private Outcome(String name) {
    fields.put("outcome", name);
  }

  /** Done. The result can be read with the task; null is none. */
  public static Outcome succeeded(Object result) {
    return new Outcome("succeeded").with("result", result);
  }

  /** Failed, and to be tried again when the retry rule of the task says so. */
  public static Outcome retry(String error) {
    return new Outcome("retry").with("error", error);
  }

  /** Failed, and to be tried again after a wait. */
  public static Outcome retry(String error, Duration delay) {
    return retry(error).with("delay", delay.toMillis() + "ms");
  }

  /** Failed, and of no use to be tried again. */
  public static Outcome failed(String error) {
    return new Outcome("failed").with("error", error);
  }

  /** Not now: to be run again after a wait. It does not count as an attempt. */
  public static Outcome snoozed(Duration delay) {
    return new Outcome("snoozed").with("delay", delay.toMillis() + "ms");
  }

  /** Returns the report for an attempt. */
  Map<String, Object> report(Task task) {
    Map<String, Object> report = new LinkedHashMap<>(fields);
    report.put("id", task.id().toString());
    report.put("attempt", task.attempt());
    return report;
  }

  @Override
  public String toString() {
    return fields.toString();
  }

  private Outcome with(String name, Object value) {
    if (value != null) {
      fields.put(name, value);
    }
    return this;
  }
}
