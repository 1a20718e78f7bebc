# shellcheck shell=bash
# The same two servers as containers, for a machine with a Docker engine and without Java. Slower to
# start than the processes and not used when Java is there. Containers are not run with --rm: `stop`
# followed by `start` must find the data again; `down` removes them.

KAFKA_IMAGE=apache/kafka:4.1.0

docker_answers() { have docker && timeout 10 docker info >/dev/null 2>&1; }

in_docker() { [[ $(env_get STACK_DRIVER) == docker ]]; }

container_of() { echo "tickwheel-${DIR##*/}-$1"; }

docker_running() {
    [[ $(docker inspect -f '{{.State.Running}}' "$(container_of "$1")" 2>/dev/null) == true ]]
}

# The image takes a setting `a.b` from the variable KAFKA_A_B. The broker listens inside on the port
# it advertises, because it also connects to itself.
docker_create() {
    local port settings=() key value
    port=$(port_of "$1")
    case $1 in
    cassandra)
        docker run -d --name "$(container_of cassandra)" -p "127.0.0.1:$port:9042" \
            -e MAX_HEAP_SIZE=768M -e HEAP_NEWSIZE=192M "cassandra:$(env_or STACK_CASSANDRA 5.0)" >/dev/null
        ;;
    kafka)
        while IFS='=' read -r key value; do
            key=${key^^}
            settings+=(-e "KAFKA_${key//./_}=$value")
        done < <(kafka_settings 0.0.0.0)
        docker run -d --name "$(container_of kafka)" -p "127.0.0.1:$port:$port" \
            -e CLUSTER_ID="$KAFKA_CLUSTER_ID" "${settings[@]}" "$KAFKA_IMAGE" >/dev/null
        ;;
    esac
}

docker_start() {
    if docker inspect "$(container_of "$1")" >/dev/null 2>&1; then
        docker start "$(container_of "$1")" >/dev/null
    else
        docker_create "$1"
    fi
}

docker_stop() {
    if [[ $2 == KILL ]]; then
        docker kill "$(container_of "$1")" >/dev/null 2>&1 || true
    else
        docker stop -t "$TERM_LIMIT_S" "$(container_of "$1")" >/dev/null 2>&1 || true
    fi
}

docker_remove() { docker rm -f -v "$(container_of "$1")" >/dev/null 2>&1 || true; }

docker_tail() { docker logs --tail 30 "$(container_of "$1")" >&2 || true; }
