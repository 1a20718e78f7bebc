# shellcheck shell=bash
# Starting, watching and stopping the two daemons. A server is named `cassandra` or `kafka`.

READY_LIMIT_S=120
TERM_LIMIT_S=15

# True while PID is a live process of this stack. Process ids are reused, so the number alone proves
# nothing: the command line must name the folder, or the process be a child that is about to exec.
owns() {
    local status=/proc/${1:-none}/status
    [[ -r $status ]] || return 1
    ! grep -q '^State:[[:space:]]*Z' "$status" 2>/dev/null || return 1
    grep -qzF -- "$DIR/" "/proc/$1/cmdline" 2>/dev/null ||
        grep -q "^PPid:[[:space:]]*$$\$" "$status" 2>/dev/null
}

pid_of() { env_get "${1^^}_PID"; }

running() { owns "$(pid_of "$1")"; }

log_of() { echo "$DIR/$1/$1.log"; }

# Runs a daemon in a session of its own, in its folder, with nothing of the caller's: a kept lock
# would never be released, a kept pipe would leave the caller's reader waiting for its end. In the foreground it takes this
# script's place instead, its process id included.
spawn() {
    local server=$1
    shift
    if [[ -n $FOREGROUND ]]; then
        cd "$DIR/$server"
        exec "$@" </dev/null >>"$(log_of "$server")" 2>&1
    fi
    (
        local fd
        for fd in /proc/"$BASHPID"/fd/*; do
            fd=${fd##*/}
            # 255 is bash's own and closes on exec.
            if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
        done
        cd "$DIR/$server" || exit
        exec setsid "$@"
    ) </dev/null >>"$(log_of "$server")" 2>&1 &
    env_set "${server^^}_PID" $!
    # Else bash reports the death of its job on our stderr.
    disown
}

# Sends REQUEST (a printf format) to a local port and prints the first bytes of the reply in hex.
exchange() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$1"
        # shellcheck disable=SC2059 # the request is a constant with \x escapes
        printf "$2" >&3
        timeout 2 head -c "$3" <&3 | od -An -v -tx1 | tr -d ' \n'
    ) 2>/dev/null || true
}

# The port being open is not enough: both servers listen some time before they serve.
answers() {
    local reply ask=exchange
    case $1 in
    cassandra)
        # CQL v4 OPTIONS -> opcode 06 (SUPPORTED).
        if secured; then ask=exchange_secured; fi
        reply=$($ask "$2" '\x04\x00\x00\x00\x05\x00\x00\x00\x00' 9)
        [[ ${reply:8:2} == 06 ]]
        ;;
    kafka)
        # Metadata v0 without topics -> size, correlation id, number of brokers. A broker lists
        # itself only once its controller lets it take requests.
        reply=$(exchange "$2" '\x00\x00\x00\x0e\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00' 12)
        [[ ${reply:8:8} == 00000001 && $((16#${reply:16:8})) -ge 1 ]]
        ;;
    esac
}

wait_ready() {
    local server=$1 port deadline=$((SECONDS + READY_LIMIT_S))
    port=$(port_of "$server")
    # The listeners for clients ask for a login; this one is for brokers.
    if secured && [[ $server == kafka ]]; then port=$(env_get KAFKA_INSIDE_PORT); fi
    until answers "$server" "$port"; do
        if ! "${2:-running}" "$server"; then
            echo "stack: $server ended while starting." >&2
            return 1
        elif ((SECONDS >= deadline)); then
            echo "stack: $server did not answer on port $port within $READY_LIMIT_S s." >&2
            return 1
        fi
        sleep 0.1
    done
}

wait_gone() {
    local tenths=$(($2 * 10))
    while owns "$1"; do
        ((tenths-- > 0)) || return 1
        sleep 0.1
    done
}

# Stops a server, TERM (then KILL after a limit) or KILL at once. Fine when it is not running.
stop_server() {
    local server=$1 signal=$2 pid
    pid=$(pid_of "$server")
    if owns "$pid"; then
        if [[ $signal == TERM ]]; then
            kill -TERM "$pid" 2>/dev/null || true
            # A paused process takes the signal only once it goes on.
            kill -CONT "$pid" 2>/dev/null || true
            wait_gone "$pid" "$TERM_LIMIT_S" || true
        fi
        if owns "$pid"; then kill -KILL "$pid" 2>/dev/null || true; fi
        wait_gone "$pid" 10 || die "$server (process $pid) does not end."
    fi
    env_set "${server^^}_PID" ""
}

start_server() {
    running "$1" || "start_$1"
}

signal_server() {
    running "$1" || die "$1 is not running."
    kill "-$2" "$(pid_of "$1")"
}

tail_log() {
    local log
    log=$(log_of "$1")
    [[ -s $log ]] || return 0
    echo "--- last lines of $1's log ---" >&2
    tail -n 30 "$log" >&2
}
