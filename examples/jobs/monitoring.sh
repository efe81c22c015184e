#!/usr/bin/env bash
# Watching a pipeline from outside: health, readiness and metrics by HTTP.
. "$(dirname "$0")/support.sh"
port=${PORT:-$(free_port)}

cat >pipeline.sql <<'SQL'
CREATE SINK numbers AS SELECT value FROM sequence(rate => 1000) WITH (path = 'numbers.csv');
SQL
start tidemill.log tidemill run --http "127.0.0.1:$port" pipeline.sql
query=$started
wait_until curl -fsS "http://127.0.0.1:$port/ready"
curl -fsS "http://127.0.0.1:$port/health" >/dev/null
counted() {
    curl -fsS "http://127.0.0.1:$port/metrics" | awk '/^tidemill_.*rows_out.* [1-9]/ { found = 1 } END { exit !found }'
}
wait_until counted
stop "$query"
