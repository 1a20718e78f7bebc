"""The examples of the description, sent to a running service in the order of one story.

    replay.py http://127.0.0.1:7420        a fresh service, which has no API key

Each call must end as the description says, with an answer that its schema describes member by member. The answers have other
ids than the examples: where an example has a text at the place of an id, later requests have the text of the real answer.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta

from description import load

SECONDS_MAX = 20


class Story:
    """A service, and what is known of it so far."""

    def __init__(self, address, description):
        self.address, self.description = address, description
        self.key, self.real, self.told = None, {}, set()

    def tell(self, name, body=None, query="", **path):
        """Makes a call as its example says, or with another body or path, and returns its answer."""
        operation, is_example = self.description.operations[name], body is None
        target = operation.path + query
        for parameter in operation.parameters:
            part = path.get(parameter["name"], self.of_here(parameter["example"]))
            target = target.replace("{%s}" % parameter["name"], part)
        if is_example and operation.request:
            body = operation.request[1]["example"]
        status, media, text = self.send(operation.method, target, None if body is None else self.of_here(body))
        expected = operation.successes()
        if str(status) not in expected:
            sys.exit(f"replay.py: {name}: {status} {text[:1000]!r}")
        self.told.add(name)
        if expected[str(status)] is None:
            return None
        wanted, described = expected[str(status)]
        if wanted not in media:
            sys.exit(f"{name}: the answer is {media}, not {wanted}")
        if wanted in ("application/octet-stream", "text/event-stream"):
            return text
        answer = json.loads(text) if "json" in wanted else text.decode()
        mistakes = self.description.mistakes(described["schema"], answer)
        if mistakes:
            sys.exit(f"{name}: the answer is not as described: {mistakes}")
        if is_example:
            self.learn(described["example"], answer)
        return answer

    def send(self, method, target, body):
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(body).encode()
        request = urllib.request.Request(self.address + target, body, headers, method=method.upper())
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                media = answer.headers.get("content-type", "")
                # A stream of events may have no end: its first line shows that it has begun.
                text = answer.readline() if media.startswith("text/event-stream") else answer.read()
                return answer.status, media, text
        except urllib.error.HTTPError as error:
            return error.code, "", error.read()

    def learn(self, example, real):
        """Takes down which id here stands for which of the examples."""
        if isinstance(example, dict) and isinstance(real, dict):
            for name in example.keys() & real.keys():
                if name == "id":
                    self.real.setdefault(example[name], real[name])
                self.learn(example[name], real[name])
        elif isinstance(example, list) and isinstance(real, list):
            for one, other in zip(example, real):
                self.learn(one, other)

    def of_here(self, value):
        """The value of an example with the ids of this service."""
        if isinstance(value, dict):
            return {name: self.of_here(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.of_here(item) for item in value]
        return self.real.get(value, value) if isinstance(value, str) else value

    def example(self, name):
        return self.description.operations[name].request[1]["example"]

    def settle(self, count, **report):
        """Ends so many attempts of due tasks alike."""
        worker, until = self.example("poll")["worker"], time.monotonic() + SECONDS_MAX
        while count > 0 and time.monotonic() < until:
            tasks = self.tell("poll")["tasks"]
            ended = [{"id": task["id"], "attempt": task["attempt"], **report} for task in tasks]
            if ended:
                self.tell("settle", {"worker": worker, "tasks": ended})
            count -= len(ended)
        if count > 0:
            sys.exit(f"{count} tasks were not due in {SECONDS_MAX} s")

    def until(self, name, holds, **path):
        """Repeats a call until its answer is as it should be."""
        until = time.monotonic() + SECONDS_MAX
        while not holds(answer := self.tell(name, **path)):
            if time.monotonic() > until:
                sys.exit(f"{name}: still {answer} after {SECONDS_MAX} s")
            time.sleep(0.05)
        return answer


def tasks(story):
    for name in ["livez", "startupz", "metrics", "getIds", "getStats", "getCluster", "getForecast", "whoAmI"]:
        story.tell(name)
    story.tell("readyz", query="?verbose=true")
    for name in ["setCallback", "setCallback", "setGate", "getCallback", "listCallbacks"]:
        story.tell(name)
    story.tell("createTask")
    story.tell("getTask", query="?view=FULL")
    story.tell("explainTask")
    story.tell("watchTask")
    story.tell("watchCallback")
    for name in ["listTasks", "rescheduleTask", "rescheduleTaskByKey", "runTask", "subscribe"]:
        story.tell(name)
    if not story.tell("poll")["tasks"]:
        sys.exit("the task did not come due")
    for name in ["heartbeat", "listMessages", "settle", "leave", "batchCreateTasks", "batchCancelTasks", "cancelTask"]:
        story.tell(name)


def keys(story):
    """Calls by key, each about a task of its own; one of them is claimed by its id."""
    first = story.example("createTask")
    for name in ["cancelTaskByKey", "runTaskByKey"]:
        story.tell("createTask", {**first, "key": story.example(name)["key"]})
        story.tell(name)
    claimed = story.until("claim", lambda answer: answer["results"][0]["status"] == "claimed")["results"][0]["task"]
    done = {"id": claimed["id"], "attempt": claimed["attempt"], "outcome": "succeeded"}
    story.tell("settle", {"worker": story.example("claim")["worker"], "tasks": [done]})


def dead_letters_and_trees(story):
    callback = story.example("createTask")["callback"]
    failing, failed = {"callback": callback, "max_attempts": 1}, {"outcome": "retry", "error": "connection refused"}
    for _ in range(2):
        story.tell("createTask", failing)
    story.settle(2, **failed)
    story.until("listDeadLetters", lambda page: len(page["dead_letters"]) == 2)
    for name in ["groupDeadLetters", "redriveDeadLetters", "deleteDeadLetter"]:
        story.tell(name)
    story.settle(1, **failed)
    story.tell("redriveDeadLetters", {"callback": callback})
    story.settle(1, outcome="succeeded")
    root = story.tell("createTask", {**failing, "children": [failing]})["id"]
    story.settle(2, **failed)
    story.until("getTree", lambda tree: tree["nodes"][0]["tree_state"] == "faulted", id=root)
    story.tell("retryFailed", id=root)
    story.settle(2, outcome="succeeded")
    story.tell("reopenTask", {}, id=root)
    story.settle(1, outcome="succeeded")
    held = story.tell("createTask", {**failing, "delay": "1h", "children": [], "children_within": "1h"})["id"]
    story.tell("completeChildren", id=held)
    last = {"worker": story.example("poll")["worker"], "id": root, "attempt": story.tell("getTask", id=root)["attempt"]}
    story.tell("reopen", last)
    story.settle(1, outcome="succeeded")
    story.tell("cancelTask", {"tree": True}, id=story.tell("createTask", {**failing, "delay": "1h", "children": [failing]})["id"])


def deliveries(story):
    """The service sends a request to itself, and once more."""
    call = {"url": f"{story.address}/livez", "method": "GET"}
    task = story.tell("createTask", {"http": call})["id"]
    story.until("getTask", lambda answer: answer["state"] == "succeeded", id=task)
    story.tell("redeliverTask", id=task)


def schedules_and_jobs(story):
    for name in ["setSchedule", "setSchedule", "getSchedule", "listSchedules", "checkSchedule", "previewSchedule", "explainSchedule"]:
        story.tell(name)
    for name in ["triggerSchedule", "pauseSchedule", "resumeSchedule", "backfillSchedule"]:
        story.tell(name)
    story.until("listScheduleRuns", lambda page: page["runs"])
    for name in ["exportSchedules", "importSchedules", "deleteSchedule"]:
        story.tell(name)
    for _ in range(2):
        story.tell("createTask", {"callback": story.example("createJob")["filter"]["callback"], "delay": "1h"})
    for name in ["createJob", "getJob", "listJobs", "pauseJob", "resumeJob", "cancelJob"]:
        story.tell(name)


def test_clock(story):
    story.tell("advanceTestClock", {"by": "1h", "settle_within": "0s"})
    if not story.tell("advanceTestClock")["done"]:
        sys.exit("the clock did not come to its time")
    shown = datetime.fromisoformat(story.tell("getTestClock")["time"])
    story.tell("setTestClock", {"time": (shown + timedelta(days=1)).isoformat()})


def access(story):
    story.tell("createBackup")
    story.key = story.tell("createApiKey", {"name": "ada", "role": "admin"})["key"]
    story.until("whoAmI", lambda caller: caller["keys_required"])
    for name in ["createApiKey", "listApiKeys", "revokeApiKey", "listAudit", "exportConfiguration", "importConfiguration"]:
        story.tell(name)
    story.tell("whoAmI")
    story.tell("deleteCallback")


def main():
    story = Story(sys.argv[1], load())
    for chapter in [tasks, keys, dead_letters_and_trees, deliveries, schedules_and_jobs, test_clock, access]:
        chapter(story)
    left = sorted(story.description.operations.keys() - story.told)
    if left:
        sys.exit(f"not in the story: {', '.join(left)}")
    print(f"{len(story.told)} operations answer their examples as described")


if __name__ == "__main__":
    main()
