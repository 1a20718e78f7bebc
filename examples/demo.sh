#!/usr/bin/env bash
# Starts a service on this machine, registers a few tasks with curl, shows each of them firing, and stops it.
# `make demo` builds the program and runs this; it needs curl and nothing else.
set -euo pipefail

program=${1:-target/debug/tickwheel}
log=$(mktemp)
"$program" dev --listen 127.0.0.1:0 >"$log" 2>&1 &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true; rm -f "$log"' EXIT

for _ in $(seq 200); do
    url=$(sed -n 's/^ready on //p' "$log")
    [ -n "$url" ] && break
    if ! kill -0 "$service" 2>/dev/null; then
        cat "$log" >&2
        exit 1
    fi
    sleep 0.05
done
[ -n "$url" ] || { echo "the service did not start within 10 s:" >&2; cat "$log" >&2; exit 1; }

# Prints the value of a field of a flat JSON object.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# Milliseconds between midnight and a time such as 2026-11-20T19:00:00.250Z.
millis() {
    local clock=${1#*T} hour minute second
    IFS=: read -r hour minute second <<<"${clock%Z}"
    local fraction=000
    case $second in *.*) fraction=${second#*.}; second=${second%%.*} ;; esac
    echo $((((10#$hour * 60 + 10#$minute) * 60 + 10#$second) * 1000 + 10#$fraction))
}

echo "A service runs at $url: the same program that runs a cluster, with a store of its own."
echo
echo "Five tasks for the callback \"echo\", registered like this:"
echo
echo "  curl $url/v1/tasks -H 'content-type: application/json' \\"
echo "       -d '{\"callback\": \"echo\", \"delay\": \"1500ms\", \"payload\": {\"number\": 1}}'"
echo
tasks=()
for number in 1 2 3 4 5; do
    delay=$((500 + number * 500))
    answer=$(curl -sS --fail-with-body "$url/v1/tasks" -H 'content-type: application/json' \
        -d "{\"callback\": \"echo\", \"delay\": \"${delay}ms\", \"payload\": {\"number\": $number}}")
    tasks+=("$(field id <<<"$answer")")
done

printf '%-36s  %-13s  %-13s  %-8s  %s\n' task due fired lateness state
for task in "${tasks[@]}"; do
    answer=$(curl -sS --fail-with-body "$url/v1/tasks/$task?wait=20s")
    due=$(field start_time <<<"$answer") fired=$(field fire_time <<<"$answer") state=$(field state <<<"$answer")
    late=$(($(millis "$fired") - $(millis "$due")))
    due=${due#*T} fired=${fired#*T}
    printf '%-36s  %-13s  %-13s  %5d ms  %s\n' "$task" "${due%Z}" "${fired%Z}" "$late" "$state"
    [ "$state" = succeeded ]
done
echo
echo "Each waited in the store, fired at its millisecond and was run by a worker. Next: $program dev"
