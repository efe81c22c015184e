#!/usr/bin/env bash
# Measurements in line protocol, as Telegraf sends them (outputs.http with data_format = "influx"), to a table in PostgreSQL: the
# mean per host and ten seconds. The pipeline is killed in between; each request still counts once.
. "$(dirname "$0")/support.sh"
postgres
port=${PORT:-$(free_port)}

cat >cpu.sql <<SQL
CREATE SOURCE cpu (measurement VARCHAR, host VARCHAR, busy DOUBLE, time TIMESTAMP,
    WATERMARK FOR time AS time - INTERVAL '1 second')
    WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:$port', durable = true);
CREATE SINK means AS
    SELECT window_end AS at, host, avg(busy) AS busy, count(*) AS measured
    FROM tumble(TABLE(cpu), time, INTERVAL '10 seconds') GROUP BY window_end, host
WITH (connector = 'postgres', url = '$url', table = 'cpu', key = 'at, host');
SQL
tested cpu.sql <<'CASE'
Ten seconds are complete a second later, and a measurement that comes after that is late.

=== text cpu
cpu,host=a busy=10 1772366400000000000
cpu,host=a busy=30 1772366405000000000
cpu,host=a busy=50 1772366411000000000
cpu,host=a busy=70 1772366409000000000
=== stop

=== expect means within 0.001
at,host,busy,measured
2026-03-01 12:00:10,a,20,2

=== late 1
CASE
# send NUMBER SECOND...: one request with measurements of two hosts at each of these seconds. An answer says that it is on disk.
# Whoever numbers the requests may send one again that was not answered.
send() {
    local number=$1 second
    shift
    for second in "$@"; do
        echo "cpu,host=a busy=$second $((1772366400 + second))000000000"
        echo "cpu,host=b busy=50 $((1772366400 + second))000000000"
    done >request
    curl -fsS -H 'X-Tidemill-Client: agent' -H "X-Tidemill-Sequence: $number" --data-binary @request \
        "http://127.0.0.1:$port/api/v2/write"
}
start tidemill.log tidemill run cpu.sql
query=$started
wait_until send 1 0 2
send 2 4 11
kill -KILL "$query"
wait "$query" || true
start again.log tidemill run cpu.sql
query=$started
# As if its answer had been lost.
wait_until send 2 4 11
send 3 13 30
stored() {
    [ "$(psql "$url" -Atc 'SELECT count(*) FROM cpu')" = 4 ]
}
wait_until stored
stop "$query"
{
    echo header
    psql "$url" -AtF , -c 'SELECT at, host, busy, measured FROM cpu'
} >stored.csv
same stored.csv <<'ROWS'
2026-03-01 12:00:10,a,2,3
2026-03-01 12:00:10,b,50,3
2026-03-01 12:00:20,a,12,2
2026-03-01 12:00:20,b,50,2
ROWS
