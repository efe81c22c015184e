#!/usr/bin/env bash
# Tests the Kafka source and sink against a real broker: one node of Apache Kafka on this machine, in a temporary
# folder, for as long as the tests run. By hand, not in .ci/run. Needs Java 17, Maven, a C compiler, make and bash, and
# the first time a network (43 MB of jars, librdkafka's sources).
#
#   tests/kafka/run.sh             the tests of the source and the sink
#   tests/kafka/run.sh COMMAND...  another command, with TIDEMILL_KAFKA_BROKERS set to the broker's address
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
broker=
# Ends the broker, whatever happens, and removes what it wrote.
end() {
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || true
        wait "$broker" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap end EXIT

# Two ports that are free now.
read -r port controller_port < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')

jars="${XDG_CACHE_HOME:-$HOME/.cache}/tidemill/kafka-4.1.0"
if [ ! -e "$jars/complete" ]; then
    mvn -q -B -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$jars"
    touch "$jars/complete"
fi

cat > "$folder/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$folder/data
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
PROPERTIES
log="$folder/broker.log"
java -cp "$jars/*" kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAQ -c "$folder/server.properties" > "$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
java -Xmx512m -cp "$jars/*" kafka.Kafka "$folder/server.properties" >> "$log" 2>&1 &
broker=$!
for _ in $(seq 120); do
    if (: > "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
    kill -0 "$broker" 2>/dev/null || break
    sleep 0.5
done
if ! (: > "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "the broker has not started:" >&2
    tail -20 "$log" >&2
    exit 1
fi
echo "a broker listens at 127.0.0.1:$port"

export TIDEMILL_KAFKA_BROKERS="127.0.0.1:$port"
if [ $# -gt 0 ]; then
    "$@"
else
    cargo test -p tidemill-connect --features kafka --test kafka
    cargo test -p tidemill-connect --features kafka --lib kafka
fi
