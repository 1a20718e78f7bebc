# shellcheck shell=bash
# What every part of `stack` uses: messages, the state file, and free ports. $DIR is the stack at hand.

die() {
    echo "stack: $*" >&2
    exit 1
}

# Exit status 3 tells a caller "this machine lacks something" apart from "it was tried and failed".
lacking() {
    echo "stack: $*" >&2
    exit 3
}

have() { command -v "$1" >/dev/null 2>&1; }

java_bin() { echo "${JAVA_HOME:+$JAVA_HOME/bin/}java"; }

require_util_linux() {
    local tool
    for tool in flock setpriv setsid; do
        have "$tool" || lacking "needs $tool, install it (Debian: apt-get install util-linux)."
    done
}

# Cassandra 5.0 runs on Java 11 and 17, Kafka 4 on 17 and later: 17 is the one that suits both.
require_java() {
    local java advice="Debian: apt-get install openjdk-17-jre-headless maven"
    java=$(java_bin)
    have "$java" || lacking "needs Java 17 and Maven, install them ($advice)."
    [[ $("$java" -version 2>&1) =~ version\ \"17[.\"] ]] ||
        lacking "needs Java 17 exactly, install it and point JAVA_HOME to it ($advice)."
}

# --- DIR/stack.env: plain KEY=VALUE lines, also read by the tests ---

env_get() { sed -n "s/^$1=//p" "$DIR/stack.env" 2>/dev/null || true; }

# Replaces the file in one step, under a lock: two tests may stop different servers at the same time.
env_set() {
    (
        flock 9
        { sed "/^$1=/d" "$DIR/stack.env" 2>/dev/null || true; echo "$1=$2"; } >"$DIR/.stack.env.new"
        mv "$DIR/.stack.env.new" "$DIR/stack.env"
    ) 9>"$DIR/.lock"
}

# The client port of a server.
port_of() {
    local address
    address=$(env_get "TICKWHEEL_${1^^}")
    echo "${address##*:}"
}

# Where a server listens: 127.0.0.1, unless whoever wrote stack.env gave it an address of its own.
host_of() {
    local address
    address=$(env_get "TICKWHEEL_${1^^}")
    echo "${address%:*}"
}

# A setting of stack.env, or what stands when it is not there.
env_or() {
    local value
    value=$(env_get "$1")
    echo "${value:-$2}"
}

print_addresses() {
    grep -E '^(TICKWHEEL_|STACK_DIR=)' "$DIR/stack.env"
}

# --- Ports ---

# Prints the TCP ports something listens on, one a line.
listening_ports() {
    local hex
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk '$4 == "0A" { sub(/.*:/, "", $2); print $2 }' |
        while read -r hex; do echo $((16#$hex)); done
}

# Fails when the port is taken. A stopped server's port is nobody's in the kernel's eyes but must
# stay its own until `start`, so every stack also leaves a claim, void once its folder is gone.
# The caller holds the lock.
claim_port() {
    local claim=$WORK/ports/$1 holder
    if [[ -f $claim ]]; then
        holder=$(<"$claim")
        [[ $holder == "$DIR" || ! -d $holder ]] || return 1
    fi
    ! grep -qx "$1" <<<"$2" || return 1
    echo "$DIR" >"$claim"
}

# Chooses every port of the stack and writes it to stack.env. Given ports must be free; ports that
# are left empty, and those no client ever names, are drawn from below the kernel's ephemeral range,
# where no outgoing connection can take them.
choose_ports() {
    mkdir -p "$WORK/ports"
    (
        flock 9
        local busy key port
        busy=$(listening_ports)
        for key in TICKWHEEL_CASSANDRA="$1" TICKWHEEL_KAFKA="$2" \
            CASSANDRA_STORAGE_PORT= CASSANDRA_JMX_PORT= KAFKA_CONTROLLER_PORT= \
            ${SECURED:+KAFKA_PLAIN_PORT= KAFKA_INSIDE_PORT=}; do
            port=${key#*=} key=${key%%=*}
            if [[ -n $port ]]; then
                claim_port "$port" "$busy" ||
                    die "port $port is in use, choose another or give --free-ports."
            else
                port=$(draw_port "$busy")
            fi
            [[ $key != TICKWHEEL_* ]] || port=127.0.0.1:$port
            env_set "$key" "$port"
            busy+=$'\n'${port##*:}
        done
    ) 9>"$WORK/ports/.lock"
}

draw_port() {
    local port _
    for _ in {1..500}; do
        port=$((20000 + RANDOM % 12000))
        if claim_port "$port" "$1"; then
            echo "$port"
            return
        fi
    done
    die "found no free port between 20000 and 32000."
}

release_ports() {
    local key port
    for key in TICKWHEEL_CASSANDRA TICKWHEEL_KAFKA CASSANDRA_STORAGE_PORT CASSANDRA_JMX_PORT \
        KAFKA_CONTROLLER_PORT KAFKA_PLAIN_PORT KAFKA_INSIDE_PORT; do
        port=$(env_get "$key")
        [[ -z $port ]] || rm -f "$WORK/ports/${port##*:}"
    done
}
