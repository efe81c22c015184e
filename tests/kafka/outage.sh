#!/usr/bin/env bash
# A pipeline from a file to a topic and from the topic to a file, whose broker is away at the start and goes away later: each row
# comes out once, the log tells of it, bad messages are in the file of dead letters, and Ctrl-C ends it while the broker is away.
#
#   tests/kafka/run.sh tests/kafka/outage.sh TIDEMILL
#
# TIDEMILL is a command that was built with the feature kafka.
set -euo pipefail
tidemill=$(realpath "$1")
folder=$(mktemp -d)
pipeline=
end() {
    if [ -n "$pipeline" ]; then kill -9 "$pipeline" 2>/dev/null || true; fi
    rm -rf "$folder"
}
trap end EXIT
cd "$folder"

fail() {
    echo "$1" >&2
    cat log >&2
    exit 1
}
# Waits until a command succeeds, while the pipeline runs.
until_true() {
    for _ in $(seq 1200); do
        if eval "$1" 2>/dev/null; then return; fi
        kill -0 "$pipeline" 2>/dev/null || fail "the pipeline has ended: $1"
        sleep 0.1
    done
    fail "in vain: $1"
}

broker="connector = 'kafka', brokers = '$TIDEMILL_KAFKA_BROKERS', format = 'json'"
cat > pipeline.sql <<SQL
CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.json', follow = true, durable = true);
CREATE SOURCE passed (n BIGINT NOT NULL) WITH ($broker, topic = 'passed', durable = true, dead_letters = 'bad.ndjson');
SET snapshot_every = '100 ms';
CREATE SINK out WITH ($broker, topic = 'passed', transactions = true) AS SELECT nullif(n, 3) AS n FROM numbers;
CREATE SINK back WITH (path = 'back.csv') AS SELECT n FROM passed;
SQL
rows() { tail -n +2 back.csv | sort -n | tr '\n' ' '; }
start() {
    "$tidemill" run pipeline.sql >> log 2>&1 &
    pipeline=$!
}

# The topic must be there.
echo "CREATE SINK made WITH ($broker, topic = 'passed') AS SELECT 0 AS n;" > make.sql
"$tidemill" run make.sql > log 2>&1 || fail "the topic cannot be made"

"$TIDEMILL_KAFKA_CONTROL" stop
echo '{"n":1}' > numbers.json
start
until_true "grep -q 'Kafka is away' log"
"$TIDEMILL_KAFKA_CONTROL" start
until_true "[ \"\$(rows)\" = '0 1 ' ]"
grep -q 'Kafka is back' log || fail "nothing is told of the end"

"$TIDEMILL_KAFKA_CONTROL" stop
printf '{"n":2}\n{"n":3}\n' >> numbers.json
# Longer than either would have waited once.
sleep 65
kill -0 "$pipeline" || fail "it has ended while the broker was away"
"$TIDEMILL_KAFKA_CONTROL" start
echo '{"n":4}' >> numbers.json
until_true "[ \"\$(rows)\" = '0 1 2 4 ' ]"
until_true "[ \$(wc -l < bad.ndjson) = 1 ]"
grep -q '"place":"kafka topic .passed., partition [0-9]*, offset [0-9]*"' bad.ndjson || fail "$(cat bad.ndjson)"

# Killed, the message is read again, and has no second letter.
kill -9 "$pipeline"
wait "$pipeline" 2>/dev/null || true
start
echo '{"n":5}' >> numbers.json
until_true "[ \"\$(rows)\" = '0 1 2 4 5 ' ]"
[ "$(wc -l < bad.ndjson)" = 1 ] || fail "$(cat bad.ndjson)"

"$TIDEMILL_KAFKA_CONTROL" stop
echo '{"n":6}' >> numbers.json
until_true "[ \$(grep -c 'Kafka is away' log) -ge 2 ]"
kill -INT "$pipeline"
for _ in $(seq 300); do
    kill -0 "$pipeline" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$pipeline" 2>/dev/null && fail "Ctrl-C does not end it"
"$TIDEMILL_KAFKA_CONTROL" start
start
until_true "[ \"\$(rows)\" = '0 1 2 4 5 6 ' ]"
echo "each row came out once, through three outages"
grep 'Kafka is' log | head -4
