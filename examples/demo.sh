#!/bin/sh
# Starts a service on this machine, registers a few tasks, shows each of them firing, and stops it: `examples/demo.sh [PROGRAM]`.
# `make demo` builds the program and runs this. It needs nothing but that program.
set -eu

program=${1:-target/debug/tickwheel}
log=$(mktemp)
# Settings of another service, and its keys, are not for this one.
for name in $(env | sed -n 's/^\(TICKWHEEL_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
"$program" dev --listen 127.0.0.1:0 >"$log" 2>&1 &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true; rm -f "$log"' EXIT

url=
tries=200
while [ -z "$url" ]; do
    url=$(sed -n 's/^ready on //p' "$log")
    tries=$((tries - 1))
    if ! kill -0 "$service" 2>/dev/null || [ "$tries" = 0 ]; then
        echo "the service did not start:" >&2
        cat "$log" >&2
        exit 1
    fi
    sleep 0.05
done
export TICKWHEEL_SERVER="$url"

# Prints the value of a field of a flat JSON object.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

echo "A service runs at $url: one process, with a store of its own."
echo
echo "Five tasks for the callback \"echo\", registered like this:"
echo
echo "  export TICKWHEEL_SERVER=$url"
echo "  $program task register --callback echo --delay 1500ms --payload '{\"number\": 1}'"
echo
tasks=
for number in 1 2 3 4 5; do
    registered=$("$program" task register --callback echo --delay $((500 + number * 500))ms \
        --payload "{\"number\": $number}" -o jsonl)
    tasks="$tasks $(echo "$registered" | field id)"
done

printf '%-36s  %-13s  %-13s  %-8s  %s\n' task due fired lateness state
for task in $tasks; do
    ended=$("$program" task get "$task" --wait 20s -o jsonl)
    state=$(echo "$ended" | field state)
    echo "$task $(echo "$ended" | field start_time) $(echo "$ended" | field fire_time) $state" | awk '
        # A time such as 2026-11-20T19:00:00.250Z without its day, and its milliseconds since midnight.
        function clock(time) { sub(/.*T/, "", time); sub(/Z$/, "", time); return time }
        function millis(time, part) { split(clock(time), part, ":"); return int((part[1] * 60 + part[2]) * 60000 + part[3] * 1000 + 0.5) }
        { printf "%-36s  %-13s  %-13s  %5d ms  %s\n", $1, clock($2), clock($3), millis($3) - millis($2), $4 }'
    [ "$state" = succeeded ]
done
echo
echo "Each waited in the store, fired at its millisecond and was run by a worker. Next: $program dev"
