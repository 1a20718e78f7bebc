# shellcheck shell=bash
# Certificates and passwords for servers that do not talk to everybody, in $DIR/secured. Cassandra asks every client for a
# certificate and a password. Kafka has a listener for SCRAM, and one for PLAIN that asks for a certificate as well.

SECURED_USER=tickwheel

secured() { [[ $(env_get STACK_SECURED) == 1 ]]; }

# An authority, and what it has signed: `server` for both servers, `client` for theirs.
make_certificates() {
    local dir=$DIR/secured name
    mkdir -p "$dir"
    (
        umask 077
        cd "$dir"
        openssl rand -hex 16 >password
        openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=authority of ${DIR##*/}" \
            -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.pem
        for name in server client; do
            openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
            openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out "$name.pem" \
                -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost")
        done
        # Both servers read the key and the certificates of one file.
        cat server.key server.pem ca.pem >server.both.pem
    ) </dev/null >"$dir/log" 2>&1 || { cat "$dir/log" >&2 && die "openssl could not make the certificates."; }
}

require_openssl() {
    have openssl || lacking "needs openssl for --secured, install it (Debian: apt-get install openssl)."
}

cassandra_secured() {
    secured || return 0
    cat <<END
authenticator: org.apache.cassandra.auth.PasswordAuthenticator
authorizer: org.apache.cassandra.auth.CassandraAuthorizer
role_manager: org.apache.cassandra.auth.CassandraRoleManager
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}
  keystore: $DIR/secured/server.both.pem
  truststore: $DIR/secured/ca.pem
END
}

# Prints the listeners of Kafka as NAME:PROTOCOL:PORT, the first for clients, the one before the controller's for brokers.
kafka_listeners() {
    if secured; then
        echo "SCRAM:SASL_SSL:$(port_of kafka) PLAIN:SASL_SSL:$(env_get KAFKA_PLAIN_PORT) INSIDE:PLAINTEXT:$(env_get KAFKA_INSIDE_PORT)"
    else
        echo "PLAINTEXT:PLAINTEXT:$(port_of kafka)"
    fi
}

kafka_secured() {
    secured || return 0
    local scram="org.apache.kafka.common.security.scram.ScramLoginModule required;"
    cat <<END
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
listener.name.scram.scram-sha-256.sasl.jaas.config=$scram
listener.name.scram.scram-sha-512.sasl.jaas.config=$scram
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_$SECURED_USER="$(<"$DIR/secured/password")";
listener.name.plain.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location=$DIR/secured/server.both.pem
ssl.truststore.type=PEM
ssl.truststore.location=$DIR/secured/ca.pem
END
}

# Users of SCRAM lie in the metadata of the cluster: they are made when it is.
kafka_users() {
    secured || return 0
    local mechanism
    for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
        echo --add-scram
        echo "$mechanism=[name=$SECURED_USER,password=$(<"$DIR/secured/password")]"
    done
}

# Sends REQUEST over TLS, as `exchange` does without.
exchange_secured() {
    local dir=$DIR/secured
    # shellcheck disable=SC2059 # the request is a constant with \x escapes
    { printf "$2" && sleep 1; } | timeout 3 openssl s_client -quiet -connect "127.0.0.1:$1" -CAfile "$dir/ca.pem" \
        -cert "$dir/client.pem" -key "$dir/client.key" 2>/dev/null | head -c "$3" | od -An -v -tx1 | tr -d ' \n' || true
}
