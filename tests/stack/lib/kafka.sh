# shellcheck shell=bash
# One Kafka in $DIR/kafka, broker and controller in one process (KRaft).

KAFKA_CLUSTER_ID=dGlja3doZWVsLXRlc3QtMQ # any 16 bytes in base64url

# Everything that does not depend on where it runs; the containers of docker.sh use it as well.
kafka_settings() {
    local port controller
    port=$(port_of kafka)
    controller=$(env_get KAFKA_CONTROLLER_PORT)
    cat <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://$1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
share.coordinator.state.topic.replication.factor=1
min.insync.replicas=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.min.isr=1
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=2
num.partitions=4
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.consumer.heartbeat.interval.ms=200
group.consumer.min.heartbeat.interval.ms=100
group.consumer.min.session.timeout.ms=1000
group.min.session.timeout.ms=1000
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=2097152
log.segment.bytes=67108864
log.index.size.max.bytes=1048576
metadata.log.segment.bytes=16777216
END
}

kafka_log4j() {
    cat <<'END'
<Configuration status="error">
  <Appenders>
    <Console name="OUT"><PatternLayout pattern="%d{HH:mm:ss.SSS} %-5p [%t] %c{1} - %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="OUT"/></Root></Loggers>
</Configuration>
END
}

start_kafka() {
    local dir=$DIR/kafka jars memory=128m flags=(-XX:TieredStopAtLevel=1)
    mkdir -p "$dir"
    jars="$CACHE/lib-kafka/*"
    { kafka_settings 127.0.0.1; echo "log.dirs=$dir/data"; } >"$dir/server.properties"
    kafka_log4j >"$dir/log4j2.xml"
    if [[ ! -f $dir/data/meta.properties ]]; then
        "$(java_bin)" -Xmx128m -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
            -Dlog4j2.configurationFile="$dir/log4j2.xml" -cp "$jars" \
            kafka.tools.StorageTool format -t "$KAFKA_CLUSTER_ID" \
            -c "$dir/server.properties" --ignore-formatted </dev/null >>"$(log_of kafka)" 2>&1
    fi
    if [[ $(env_get STACK_MEASURE) == 1 ]]; then
        memory=256m flags=()
    fi
    spawn kafka "$(java_bin)" "-Xms$memory" "-Xmx$memory" -XX:+UseSerialGC \
        ${flags[@]+"${flags[@]}"} -XX:MaxDirectMemorySize=64m -Xss512k -XX:-UsePerfData \
        -Dlog4j2.configurationFile="$dir/log4j2.xml" -cp "$jars" \
        kafka.Kafka "$dir/server.properties"
}
