# shellcheck shell=bash
# The jars of the servers, from the Maven registry into $CACHE/lib-cassandra and $CACHE/lib-kafka.

# The name under which the jars of a server lie: Cassandra's depend on the version that the stack runs.
jars_of() {
    if [[ $1 == cassandra ]] && cassandra_4; then echo cassandra-4.1; else echo "$1"; fi
}

fetched() {
    [[ $(cat "$CACHE/lib-$1/.pom.sha256" 2>/dev/null) == "$(pom_hash "$1")" ]]
}

pom_hash() { sha256sum <"$HERE/$1.pom.xml"; }

# The folder appears under its name only when complete: an interrupted fetch is simply done again.
fetch_one() {
    local name=$1 new=$CACHE/lib-$1.new log=$CACHE/fetch-$1.log attempt
    for attempt in 1 2; do
        rm -rf "$new"
        echo "stack: fetching $name (attempt $attempt)" >&2
        if mvn -q -B -f "$HERE/$name.pom.xml" dependency:copy-dependencies \
            -DoutputDirectory="$new" -DincludeScope=runtime </dev/null >"$log" 2>&1; then
            pom_hash "$name" >"$new/.pom.sha256"
            rm -rf "$CACHE/lib-$name"
            mv "$new" "$CACHE/lib-$name"
            rm -f "$log"
            return
        fi
    done
    tail -n 20 "$log" >&2
    die "could not fetch $name."
}

# Several test runs may start at once on an empty cache; one of them fetches, the others wait.
# Maven is asked for only when something has to be fetched.
fetch_all() {
    local cassandra
    cassandra=$(jars_of cassandra)
    if fetched "$cassandra" && fetched kafka; then return; fi
    have mvn || lacking "needs Maven, install it (Debian: apt-get install openjdk-17-jre-headless maven)."
    mkdir -p "$CACHE"
    (
        flock 9
        local name
        for name in "$cassandra" kafka; do
            fetched "$name" || fetch_one "$name"
        done
    ) 9>"$CACHE/fetch.lock"
}

# The jars of a server, joined for -cp. Cassandra wants them by name, a wildcard hides its agent.
class_path() {
    local jars
    jars=("$CACHE/lib-$(jars_of "$1")"/*.jar)
    local IFS=:
    echo "${jars[*]}"
}
