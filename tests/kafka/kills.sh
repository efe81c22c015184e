#!/usr/bin/env bash
# Exactly once from a topic to a topic: a durable pipeline is killed at random moments, and each row must come out once.
#
#   tests/kafka/run.sh tests/kafka/kills.sh TIDEMILL [KILLS]
#
# TIDEMILL is a command that was built with the feature kafka.
set -euo pipefail
tidemill=$(realpath "$1")
kills=${2:-10}
rows=400000
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

broker="connector = 'kafka', brokers = '$TIDEMILL_KAFKA_BROKERS', format = 'json'"
cat > fill.sql <<SQL
CREATE SINK filled WITH ($broker, topic = 'input') AS
    SELECT 'key' || (value % 7) AS k, value AS n FROM generate_series(1, $rows) AS s(value);
SQL
cat > pipeline.sql <<SQL
CREATE SOURCE input (k TEXT, n BIGINT) WITH ($broker, topic = 'input', durable = true);
CREATE SINK even WITH ($broker, topic = 'output', transactions = true) AS SELECT k, n FROM input WHERE n % 2 = 0;
SQL
cat > answer.sql <<SQL
CREATE SOURCE output (k TEXT, n BIGINT) WITH ($broker, topic = 'output', end_at_end = true);
CREATE SINK answer WITH (path = 'answer.csv', header = false) AS
    SELECT count(*) AS rows, count(DISTINCT n) AS different, coalesce(sum(n), 0) AS total FROM output;
SQL
answer() {
    rm -f answer.csv
    "$tidemill" run answer.sql > answer.log 2>&1 || { cat answer.log >&2; return 1; }
    # The count changes while the topic is read; the last line has all of it.
    tail -1 answer.csv
}

"$tidemill" run fill.sql > fill.log 2>&1 || { cat fill.log >&2; exit 1; }
for kill in $(seq "$kills"); do
    "$tidemill" run pipeline.sql > run.log 2>&1 &
    pipeline=$!
    sleep "$((RANDOM % 4 + 1)).$((RANDOM % 10))"
    kill -9 "$pipeline" || { cat run.log >&2; exit 1; }
    wait "$pipeline" 2>/dev/null || true
    echo "kill $kill: $(answer 2> /dev/null || echo nothing yet)"
done
expected="$((rows / 2)),$((rows / 2)),$((rows / 2 * (rows / 2 + 1)))"
"$tidemill" run pipeline.sql > run.log 2>&1 &
pipeline=$!
for _ in $(seq 60); do
    found=$(answer)
    if [ "$found" = "$expected" ]; then break; fi
    sleep 1
done
# What came twice would come now.
sleep 3
found=$(answer)
kill -INT "$pipeline"
wait "$pipeline" || true
if [ "$found" != "$expected" ]; then
    echo "expected rows, different rows and sum $expected, found $found" >&2
    exit 1
fi
echo "each of $((rows / 2)) rows came out once, after $kills kills"
