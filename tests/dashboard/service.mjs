// A service with a directory of its own, for the checks that start one: it ends with them.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { pause } from "./browser.mjs";

export class Service {
  /** Starts a program, and waits until it says where it is. */
  static async start(program, ...more) {
    const folder = mkdtempSync(join(tmpdir(), "dashboard-service-"));
    const words = ["serve", "--listen", "127.0.0.1:0", "--data-dir", join(folder, "data"), ...more];
    const child = spawn(program, words, { stdio: ["ignore", "ignore", "pipe"] });
    const lines = createInterface({ input: child.stderr });
    const url = await new Promise((done, fail) => {
      child.on("exit", (code) => fail(new Error(`the service has ended: ${code}`)));
      lines.on("line", (line) => {
        const found = /ready on (http:\S+)/.exec(line);
        if (found) done(found[1]);
      });
    });
    return new Service(child, folder, url);
  }

  constructor(child, folder, url) {
    Object.assign(this, { child, folder, url });
  }

  /** Makes a call, which must succeed. */
  async api(method, path, body) {
    const answer = await fetch(this.url + path, {
      method,
      headers: body ? { "content-type": "application/json" } : {},
      body: body && JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  /** Registers so many tasks, by batches. */
  async register(count, task) {
    const ids = [];
    for (let from = 0; from < count; from += 500) {
      const tasks = Array.from({ length: Math.min(500, count - from) }, (_, at) => task(from + at));
      const { results } = await this.api("POST", "/v1/tasks:batchCreate", { tasks });
      for (const { task, error } of results) {
        if (error) throw new Error(JSON.stringify(error));
        ids.push(task.id);
      }
    }
    return ids;
  }

  /** Takes tasks of callbacks and reports how they ended, until `until` says that it is enough. */
  async work(callbacks, end, until) {
    while (!(await until())) {
      const { tasks } = await this.api("POST", "/v1/worker/poll", { worker: "checker", callbacks, max_tasks: 500, wait: "1s" });
      const ended = tasks.map((task) => ({ id: task.id, attempt: task.attempt, ...end(task) }));
      if (ended.length > 0) await this.api("POST", "/v1/worker/settle", { worker: "checker", tasks: ended });
    }
  }

  /** Processor time that the process has used, in seconds. */
  cpu() {
    const fields = readFileSync(`/proc/${this.child.pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  async stop() {
    const ended = new Promise((done) => this.child.on("exit", done));
    this.child.kill("SIGKILL");
    await Promise.race([ended, pause(5000)]);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
