package org.example.worker;

/** What the tasks of a callback do. */
@FunctionalInterface
public interface Handler {
  /**
   * Runs a task. Its thread is interrupted when the attempt is not this worker's any more, and when
   * the worker has waited long enough for it to end.
   *
   * @throws Exception the task is tried again by its retry rule
   */
  Outcome run(Task task) throws Exception;
}
