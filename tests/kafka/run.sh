#!/usr/bin/env bash
# Tests the Kafka source and sink against a real broker: one node of Apache Kafka on this machine, in a temporary
# folder, for as long as the tests run. By hand, not in .ci/run. Needs Java 17, Maven, openssl, a C compiler, make, perl and
# bash, and the first time a network (43 MB of jars, librdkafka's and OpenSSL's sources).
#
#   tests/kafka/run.sh             the tests of the source and the sink
#   tests/kafka/run.sh COMMAND...  another command (kills.sh, outage.sh), with these variables:
#
# TIDEMILL_KAFKA_BROKERS, where the broker listens without TLS; _TLS, where it demands a certificate; _SASL, where it speaks TLS
# and demands the login of the user 'reports' with the password 'mill stone'; _SASL_PLAINTEXT, the same without TLS;
# TIDEMILL_KAFKA_CERTIFICATES, the folder of ca.pem, client.pem and client.key; TIDEMILL_KAFKA_CONTROL, a command that starts and
# stops the broker with `start` and `stop`.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
# Ends the broker, whatever happens, and removes what it wrote.
end() {
    if [ -x "$folder/broker" ]; then "$folder/broker" stop; fi
    rm -rf "$folder"
}
trap end EXIT

# Ports that are free now.
read -r port tls_port sasl_port sasl_plaintext_port controller_port < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(5)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')

jars="${XDG_CACHE_HOME:-$HOME/.cache}/tidemill/kafka-4.1.0"
if [ ! -e "$jars/complete" ]; then
    mvn -q -B -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$jars"
    touch "$jars/complete"
fi

# An authority, and certificates of the broker and of a client.
certificates="$folder/certificates"
mkdir "$certificates"
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
        -keyout "$certificates/$2.key" -out "$certificates/$2.pem" 2>/dev/null
}
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$certificates/$2.key" -out "$certificates/$2.csr" 2>/dev/null
    openssl x509 -req -in "$certificates/$2.csr" -CA "$certificates/ca.pem" -CAkey "$certificates/ca.key" -CAcreateserial \
        -days 2 -out "$certificates/$2.pem" -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1') 2>/dev/null
}
authority "the test's authority" ca
authority "another authority" other
certificate localhost broker
certificate reports client
cat "$certificates/broker.key" "$certificates/broker.pem" > "$certificates/broker-both.pem"

plain=org.apache.kafka.common.security.plain.PlainLoginModule
scram=org.apache.kafka.common.security.scram.ScramLoginModule
login_modules() {
    echo "listener.name.$1.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    echo "listener.name.$1.plain.sasl.jaas.config=$plain required user_reports=\"mill stone\";"
    echo "listener.name.$1.scram-sha-256.sasl.jaas.config=$scram required;"
    echo "listener.name.$1.scram-sha-512.sasl.jaas.config=$scram required;"
}
listeners="PLAINTEXT://127.0.0.1:$port,SSL://127.0.0.1:$tls_port,SASL_SSL://127.0.0.1:$sasl_port"
listeners="$listeners,SASL_PLAINTEXT://127.0.0.1:$sasl_plaintext_port"
protocols="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
cat > "$folder/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
listeners=$listeners,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=$listeners
controller.listener.names=CONTROLLER
listener.security.protocol.map=$protocols
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=$certificates/broker-both.pem
ssl.truststore.type=PEM
ssl.truststore.location=$certificates/ca.pem
listener.name.ssl.ssl.client.auth=required
$(login_modules sasl_ssl)
$(login_modules sasl_plaintext)
log.dirs=$folder/data
num.partitions=3
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
PROPERTIES
log="$folder/broker.log"
java -cp "$jars/*" kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAQ -c "$folder/server.properties" \
    --add-scram 'SCRAM-SHA-256=[name=reports,password="mill stone"]' \
    --add-scram 'SCRAM-SHA-512=[name=reports,password="mill stone"]' > "$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
# Starts and stops the broker, for the tests of outages as well.
control="$folder/broker"
cat > "$control" <<SCRIPT
#!/usr/bin/env bash
set -euo pipefail
listens() { (: > "/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
case "\$1" in
start)
    if listens; then exit 0; fi
    java -Xmx512m -cp "$jars/*" kafka.Kafka "$folder/server.properties" >> "$log" 2>&1 < /dev/null &
    echo \$! > "$folder/pid"
    for _ in \$(seq 240); do
        if listens; then exit 0; fi
        kill -0 "\$(cat "$folder/pid")" 2>/dev/null || break
        sleep 0.5
    done
    echo "the broker has not started:" >&2
    tail -20 "$log" >&2
    exit 1
    ;;
stop)
    if [ ! -e "$folder/pid" ]; then exit 0; fi
    kill "\$(cat "$folder/pid")" 2>/dev/null || true
    while kill -0 "\$(cat "$folder/pid")" 2>/dev/null; do sleep 0.1; done
    rm "$folder/pid"
    ;;
esac
SCRIPT
chmod +x "$control"
"$control" start
echo "a broker listens at 127.0.0.1:$port"

export TIDEMILL_KAFKA_BROKERS="127.0.0.1:$port"
export TIDEMILL_KAFKA_TLS="127.0.0.1:$tls_port"
export TIDEMILL_KAFKA_SASL="127.0.0.1:$sasl_port"
export TIDEMILL_KAFKA_SASL_PLAINTEXT="127.0.0.1:$sasl_plaintext_port"
export TIDEMILL_KAFKA_CERTIFICATES="$certificates"
export TIDEMILL_KAFKA_CONTROL="$control"
if [ $# -gt 0 ]; then
    "$@"
else
    cargo test -p tidemill-connect --features kafka --test integration kafka
    # They stop the broker, and so come alone.
    cargo test -p tidemill-connect --features kafka --test integration kafka -- --ignored --test-threads 1
    cargo test -p tidemill-connect --features kafka --lib kafka
fi
