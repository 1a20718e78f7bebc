# shellcheck shell=bash
# A stack as a whole, and the choice between processes (the rule) and containers.

drive_running() { if in_docker; then docker_running "$1"; else running "$1"; fi; }
drive_start() { if in_docker; then docker_start "$1"; else start_server "$1"; fi; }
drive_stop() { if in_docker; then docker_stop "$@"; else stop_server "$@"; fi; }
drive_wait() { wait_ready "$1" drive_running; }
drive_tail() { if in_docker; then docker_tail "$1"; else tail_log "$1"; fi; }

drive_signal() {
    if ! in_docker; then
        signal_server "$@"
    elif [[ $2 == STOP ]]; then
        docker pause "$(container_of "$1")" >/dev/null
    else
        docker unpause "$(container_of "$1")" >/dev/null
    fi
}

all_running() { drive_running cassandra && drive_running kafka; }

# Sets up a new $DIR: driver, ports, settings. A folder that holds something else is refused, since
# `down` deletes it.
prepare() {
    local driver=process
    [[ $DIR != *[[:space:]]* ]] || die "the path $DIR contains a space, choose another with --dir."
    mkdir -p "$DIR"
    [[ -z $(find "$DIR" -mindepth 1 ! -name owner -print -quit) ]] ||
        die "$DIR is not empty and not a stack."
    if ! have "$(java_bin)" && docker_answers; then driver=docker; fi
    [[ -z $SECURED || $driver == process ]] || lacking "needs Java 17 for --secured, install it."
    env_set STACK_DIR "$DIR"
    env_set STACK_DRIVER "$driver"
    env_set STACK_CASSANDRA "$CASSANDRA"
    env_set STACK_MEASURE "${MEASURE:-0}"
    env_set STACK_DURABLE "${DURABLE:-0}"
    env_set STACK_SECURED "${SECURED:-0}"
    if [[ -n $FREE_PORTS ]]; then
        choose_ports "" ""
    else
        choose_ports "$CASSANDRA_PORT" "$KAFKA_PORT"
    fi
    [[ -z $SECURED ]] || make_certificates
}

# Starts whatever of $DIR is not running, both servers at the same time, and waits for both. A
# folder that was kept goes on with its data and ports, and is kept again should that fail.
bring_up() {
    local server
    require_util_linux
    [[ -z $SECURED ]] || require_openssl
    if [[ -f $DIR/stack.env ]]; then KEEP=1; else prepare; fi
    if ! in_docker; then
        require_java
        fetch_all
    fi
    # FAILED names the server whose log `abandon` shows.
    for server in cassandra kafka; do
        FAILED=$server
        drive_start "$server"
    done
    for server in cassandra kafka; do
        FAILED=$server
        drive_wait "$server"
    done
    FAILED=""
}

# The EXIT trap of an unfinished `up`.
abandon() {
    local status=$?
    trap '' INT TERM
    [[ -z ${FAILED:-} || $status -gt 128 ]] || drive_tail "$FAILED"
    # A signal may arrive between the fork and the note of its process id.
    jobs -p | xargs -r kill -KILL 2>/dev/null || true
    if [[ -f $DIR/stack.env ]]; then take_down; else rmdir "$DIR" 2>/dev/null || true; fi
    exit "$status"
}

# Cassandra is killed, since its orderly stop takes seconds and it recovers from its log. Kafka gets
# the time for an orderly stop only where its data is wanted afterwards.
take_down() {
    if in_docker; then
        drive_stop cassandra KILL
        drive_stop kafka TERM
        [[ -n $KEEP ]] || { docker_remove cassandra && docker_remove kafka; }
    else
        stop_server cassandra KILL
        stop_server kafka "$([[ -n $KEEP ]] && echo TERM || echo KILL)"
    fi
    # Without an owner no later `run` takes a kept folder for an abandoned one.
    rm -f "$DIR/owner"
    [[ -z $KEEP ]] || return 0
    release_ports
    if [[ $(cat "$WORK/current" 2>/dev/null) == "$DIR" ]]; then rm -f "$WORK/current"; fi
    rm -rf "$DIR"
}

# --- `run`: a stack that belongs to one process ---

# The start time distinguishes the process from a later one with its number.
identity() { awk -v pid="$1" '{ sub(/.*\) /, ""); print pid, $20 }' "/proc/$1/stat" 2>/dev/null; }

mark_owner() { identity $$ >"$DIR/owner"; }

# Takes down the stacks whose `run` was killed without a chance to do it.
sweep() {
    local owner dir keep=$KEEP
    for owner in "$WORK"/run.*/owner; do
        [[ -s $owner ]] || continue
        [[ $(identity "$(cut -d' ' -f1 "$owner")") != "$(<"$owner")" ]] || continue
        dir=${owner%/owner}
        echo "stack: removing the abandoned ${dir##*/}" >&2
        DIR=$dir KEEP=""
        if [[ -f $DIR/stack.env ]]; then take_down; else rm -rf "$DIR"; fi
    done
    DIR="" KEEP=$keep
}

# Ends a process group: politely, then after 5 s for good.
end_group() {
    local _
    kill -TERM -- "-$1" 2>/dev/null || return 0
    for _ in {1..50}; do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}
