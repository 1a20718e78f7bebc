#!/usr/bin/env bash
# A Tickwheel worker in bash and curl: one task at a time. Copy it, and put your own work into run_task.
#
#     CALLBACK=nightly examples/worker.sh
#     tickwheel task register --callback nightly --payload '{"table": "orders"}'
#
# run_task gets the claimed task as JSON on standard input, and what it prints must be JSON: it is kept as the result. Its exit
# code 0 means succeeded, everything else is tried again by the task's retry rule. `tickwheel worker` does more of this for
# you: several tasks at once, fatal exit codes, an end at the deadline.
set -u

SERVER=${TICKWHEEL_SERVER:-http://127.0.0.1:7420}
CALLBACK=${CALLBACK:-nightly}
WORKER="bash-$HOSTNAME-$$"

run_task() {
    local task
    task=$(cat)
    # The work. Hand the id and the attempt, together the fencing token, to whatever you change.
    printf '{"bytes": %d}' "${#task}"
}

# call VERB FIELDS: sends {"worker": ..., FIELDS} and prints the answer.
call() {
    curl --silent --show-error --fail-with-body --max-time 75 --header 'content-type: application/json' \
        --data "{\"worker\": \"$WORKER\", $2}" "$SERVER/v1/worker/$1"
}

# Tells every few seconds that the attempt is alive; ended with the attempt.
beat() {
    while sleep 1; do
        call heartbeat "\"tasks\": [{\"id\": \"$1\", \"attempt\": $2}]" >/dev/null
    done
}

settle() {
    # Repeating a report is safe, and a lost one would run the task again.
    for _ in 1 2 3 4 5; do
        call settle "\"tasks\": [{\"id\": \"$1\", \"attempt\": $2, $3}]" >/dev/null && return
        sleep 1
    done
}

# A poll is short, so that SIGTERM between two tasks is answered soon; a task that runs is finished first.
stopping=
trap 'stopping=yes' TERM INT

while [ -z "$stopping" ]; do
    if ! answer=$(call poll "\"callbacks\": [\"$CALLBACK\"], \"max_tasks\": 1, \"wait\": \"2s\""); then
        printf 'cannot poll, trying again: %s\n' "$answer" >&2
        sleep 1
        continue
    fi
    # {"tasks":[{"id":"...","attempt":1,...}]}: id and attempt come first, before anything of the user's.
    [[ $answer =~ ^\{\"tasks\":\[\{\"id\":\"([0-9a-f-]+)\",\"attempt\":([0-9]+), ]] || continue
    id=${BASH_REMATCH[1]} attempt=${BASH_REMATCH[2]}
    beat "$id" "$attempt" &
    beating=$!
    if result=$(run_task <<<"$answer"); then
        report="\"outcome\": \"succeeded\", \"result\": ${result:-null}"
    else
        report="\"outcome\": \"retry\", \"error\": \"exit code $?\""
    fi
    kill "$beating"
    wait "$beating" 2>/dev/null
    settle "$id" "$attempt" "$report"
done
