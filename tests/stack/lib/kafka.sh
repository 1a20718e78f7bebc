# shellcheck shell=bash
# One Kafka in $DIR/kafka, broker and controller in one process (KRaft). A cluster of several is made of several DIRs, each
# with its KAFKA_NODE and the same KAFKA_VOTERS and KAFKA_COPIES in its stack.env.

KAFKA_CLUSTER_ID=dGlja3doZWVsLXRlc3QtMQ # any 16 bytes in base64url

# The sessions of consumer groups are those of a stock broker: no member may ask for less than 6 s. A new group does not wait for
# more members, as a stock broker has it wait for 3 s: each test has groups of its own. In the brokers' own group protocol members
# hear of a change with a heartbeat, for which a stock broker takes 5 s.
# Everything that does not depend on where it runs; the containers of docker.sh use it as well.
kafka_settings() {
    local host controller node copies listener name protocol port inside listeners="" advertised="" map=""
    host=$(host_of kafka)
    for listener in $(kafka_listeners); do
        IFS=: read -r name protocol port <<<"$listener"
        listeners+=$name://$1:$port, advertised+=,$name://$host:$port map+=$name:$protocol, inside=$name
    done
    controller=$(env_get KAFKA_CONTROLLER_PORT)
    node=$(env_or KAFKA_NODE 1)
    copies=$(env_or KAFKA_COPIES 1)
    cat <<END
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$(env_or KAFKA_VOTERS "1@$host:$controller")
listeners=${listeners}CONTROLLER://$host:$controller
advertised.listeners=${advertised:1}
listener.security.protocol.map=${map}CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=$inside
$(kafka_secured)
default.replication.factor=$copies
offsets.topic.replication.factor=$copies
transaction.state.log.replication.factor=$copies
share.coordinator.state.topic.replication.factor=$copies
min.insync.replicas=$(((copies + 1) / 2))
transaction.state.log.min.isr=$(((copies + 1) / 2))
share.coordinator.state.topic.min.isr=$(((copies + 1) / 2))
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=2
num.partitions=4
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.consumer.heartbeat.interval.ms=200
group.consumer.min.heartbeat.interval.ms=100
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
    local dir=$DIR/kafka jars memory users flags=(-XX:TieredStopAtLevel=1)
    memory=$(env_or KAFKA_HEAP 128m)
    mkdir -p "$dir"
    jars="$CACHE/lib-kafka/*"
    { kafka_settings "$(host_of kafka)"; echo "log.dirs=$dir/data"; } >"$dir/server.properties"
    kafka_log4j >"$dir/log4j2.xml"
    if [[ ! -f $dir/data/meta.properties ]]; then
        mapfile -t users < <(kafka_users)
        "$(java_bin)" -Xmx128m -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
            -Dlog4j2.configurationFile="$dir/log4j2.xml" -cp "$jars" \
            kafka.tools.StorageTool format -t "$KAFKA_CLUSTER_ID" \
            -c "$dir/server.properties" --ignore-formatted ${users[@]+"${users[@]}"} </dev/null >>"$(log_of kafka)" 2>&1
    fi
    if [[ $(env_get STACK_MEASURE) == 1 ]]; then
        memory=256m flags=()
    fi
    spawn kafka "$(java_bin)" "-Xms$memory" "-Xmx$memory" -XX:+UseSerialGC \
        ${flags[@]+"${flags[@]}"} -XX:MaxDirectMemorySize=64m -Xss512k -XX:-UsePerfData \
        -Dlog4j2.configurationFile="$dir/log4j2.xml" -cp "$jars" \
        kafka.Kafka "$dir/server.properties"
}
