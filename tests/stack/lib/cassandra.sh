# shellcheck shell=bash
# One Cassandra node in $DIR/cassandra, alone in its ring: replication factor 1. A ring of several is made of several DIRs,
# each with its CASSANDRA_TOKEN and the same CASSANDRA_SEEDS in its stack.env. STACK_CASSANDRA there chooses the version.

# 4.1 names Java 8 and 11 as its own. It starts and serves on 17 too with the packages opened below; what runs Java code in the
# server (functions of users) does not, and nothing here does. A stack that has no folder yet goes by --cassandra.
cassandra_4() { [[ $(env_or STACK_CASSANDRA "${CASSANDRA:-5.0}") == 4.1 ]]; }

cassandra_yaml() {
    local dir=$DIR/cassandra host storage memtables
    host=$(host_of cassandra)
    storage=$(env_get CASSANDRA_STORAGE_PORT)
    memtables=$(env_or CASSANDRA_MEMTABLES 128MiB)
    cat <<END
cluster_name: tickwheel-test
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "$(env_or CASSANDRA_SEEDS "$host:$storage")"}]}]
$(cassandra_token)
listen_address: $host
rpc_address: $host
storage_port: $storage
native_transport_port: $(port_of cassandra)
start_native_transport: true
data_file_directories: [$dir/data]
commitlog_directory: $dir/commitlog
hints_directory: $dir/hints
saved_caches_directory: $dir/saved_caches
auto_snapshot: false
paxos_variant: v2
uuid_sstable_identifiers_enabled: true
$(commitlog_sync)
commitlog_segment_size: 16MiB
commitlog_total_space: $(env_or CASSANDRA_COMMITLOG 256MiB)
memtable_allocation_type: offheap_objects
memtable_heap_space: $memtables
memtable_offheap_space: $memtables
$(cassandra_formats)
file_cache_size: 64MiB
networking_cache_size: 32MiB
concurrent_reads: 16
concurrent_writes: 16
concurrent_compactors: 1
compaction_throughput: 0MiB/s
# Under the client's own limit, so that a slow write ends here first and the client learns of it.
write_request_timeout: 2000ms
cas_contention_timeout: 1000ms
internode_compression: none
dynamic_snitch: false
$(cassandra_secured)
END
}

# What 5.0 brought. Without its compatibility mode it stores a time to live that ends after 2038, which 4.1 refuses.
cassandra_formats() {
    cassandra_4 || cat <<'END'
storage_compatibility_mode: NONE
sstable: {selected_format: bti}
memtable: {configurations: {skiplist: {class_name: SkipListMemtable}, trie: {class_name: TrieMemtable}, default: {inherits: trie}}}
END
}

# The token of one node of several, which all start at once on an empty ring.
cassandra_token() {
    local token
    token=$(env_get CASSANDRA_TOKEN)
    [[ -z $token ]] || printf '%s\n' "initial_token: $token" "auto_bootstrap: false"
}

# `periodic` acknowledges a write before its log record is complete: SIGKILL takes the last 0.1 s of
# acknowledged writes, conditional ones too. `batch` loses none and makes a lone write about twice
# as slow. Never `group`: with it each conditional write waits for four windows.
commitlog_sync() {
    if [[ $(env_get STACK_DURABLE) == 1 ]]; then
        echo "commitlog_sync: batch"
    else
        printf '%s\n' "commitlog_sync: periodic" "commitlog_sync_period: 1000ms"
    fi
}

cassandra_logback() {
    cat <<'END'
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level [%thread] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
END
}

# Cassandra reaches into the JDK's own packages; since Java 17 each has to be opened by name.
cassandra_opens() {
    local package
    echo -Djdk.attach.allowAttachSelf=true
    for package in java.base/jdk.internal.misc java.base/java.lang.ref \
        java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry \
        java.rmi/sun.rmi.server java.sql/java.sql jdk.unsupported/sun.misc jdk.attach/sun.tools.attach; do
        echo "--add-exports=$package=ALL-UNNAMED"
    done
    for package in java.lang.module jdk.internal.loader jdk.internal.ref jdk.internal.reflect \
        jdk.internal.math jdk.internal.module jdk.internal.util.jar sun.nio.ch java.io java.nio \
        java.lang java.lang.reflect java.util java.util.concurrent java.util.concurrent.atomic; do
        echo "--add-opens=java.base/$package=ALL-UNNAMED"
    done
    echo --add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED
}

# 4.1 asks a TLS connection with a password for its certificates by a call that Java 17 has no longer. OpenSSL's engine has it;
# the one of Java starts more quickly.
cassandra_without_openssl() {
    if secured && cassandra_4; then echo false; else echo true; fi
}

start_cassandra() {
    local dir=$DIR/cassandra launch=() opens flags=() heap
    heap=$(env_or CASSANDRA_HEAP 768m)
    mkdir -p "$dir"
    cassandra_yaml >"$dir/cassandra.yaml"
    cassandra_logback >"$dir/logback.xml"
    mapfile -t opens < <(cassandra_opens)
    # With CAP_IPC_LOCK, which root has, Cassandra pins its whole heap in memory.
    if setpriv --bounding-set=-ipc_lock true 2>/dev/null; then
        launch=(setpriv --bounding-set=-ipc_lock)
    fi
    # The quick compiler alone halves the boot's work, but would falsify a measurement.
    [[ $(env_get STACK_MEASURE) == 1 ]] || flags=(-XX:TieredStopAtLevel=1)
    # `foreground` only means that it keeps its standard output, where the log goes.
    spawn cassandra ${launch[@]+"${launch[@]}"} "$(java_bin)" \
        "-Xms$heap" "-Xmx$heap" "-XX:+Use$(env_or CASSANDRA_COLLECTOR G1GC)" -Xss384k -XX:MaxDirectMemorySize=512m \
        -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData ${flags[@]+"${flags[@]}"} \
        -javaagent:"$(echo "$CACHE/lib-$(jars_of cassandra)"/jamm-*.jar)" "${opens[@]}" \
        -Dio.netty.tryReflectionSetAccessible=true -Djava.net.preferIPv4Stack=true \
        -Djava.awt.headless=true -Dcassandra.config="file://$dir/cassandra.yaml" \
        -Dcassandra.storagedir="$dir" -Dcassandra.logdir="$dir" \
        -Dlogback.configurationFile=logback.xml -Dcassandra-foreground=yes \
        -Dcassandra.jmx.local.port="$(env_get CASSANDRA_JMX_PORT)" \
        -Djava.rmi.server.hostname=127.0.0.1 \
        -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1000 \
        -Dcassandra.consistent.rangemovement=false -Dcassandra.superuser_setup_delay_ms=-1 \
        -Dcassandra.shutdown_announce_in_ms=0 \
        -Dcassandra.skip_paxos_repair_on_topology_change=true \
        -Dcassandra.disable_tcactive_openssl="$(cassandra_without_openssl)" \
        -cp "$dir:$(class_path cassandra)" org.apache.cassandra.service.CassandraDaemon
}
