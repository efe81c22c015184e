#!/usr/bin/env bash
# Watching a pipeline from outside: health, readiness and metrics by HTTP.
. "$(dirname "$0")/support.sh"
port=${PORT:-$(free_port)}

cat >pipeline.sql <<'SQL'
CREATE SOURCE counted WITH (connector = 'generator', function = 'sequence', rate = 1000);
CREATE SINK numbers AS SELECT value FROM counted WITH (path = 'numbers.csv');
SQL
tested pipeline.sql <<'CASE'
=== rows counted
value,event_time
7,2026-03-01 12:00:00

=== expect numbers
value
7
CASE
start tidemill.log tidemill run --http "127.0.0.1:$port" pipeline.sql
query=$started
wait_until curl -fsS "http://127.0.0.1:$port/ready"
curl -fsS "http://127.0.0.1:$port/health" >/dev/null
counted() {
    curl -fsS "http://127.0.0.1:$port/metrics" | awk '/^tidemill_.*rows_out.* [1-9]/ { found = 1 } END { exit !found }'
}
wait_until counted
stop "$query"
