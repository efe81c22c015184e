#!/usr/bin/env bash
# Measurements in line protocol, as Telegraf sends them, to a table in PostgreSQL: the mean per host and ten seconds.
. "$(dirname "$0")/support.sh"
postgres
port=${PORT:-$(free_port)}

cat >cpu.sql <<SQL
CREATE SOURCE cpu (measurement VARCHAR, host VARCHAR, busy DOUBLE, time TIMESTAMP,
    WATERMARK FOR time AS time - INTERVAL '1 second')
    WITH (connector = 'line_protocol', listen = 'tcp://127.0.0.1:$port');
CREATE SINK means AS
    SELECT window_end AS at, host, avg(busy) AS busy, count(*) AS measured
    FROM tumble(TABLE(cpu), time, INTERVAL '10 seconds') GROUP BY window_end, host
WITH (connector = 'postgres', url = '$url', table = 'cpu', key = 'at, host');
SQL
start tidemill.log tidemill run cpu.sql
query=$started
wait_until bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
# measured HOST BUSY SECOND, as Telegraf writes it: seconds since 1970 with nine more digits.
{
    for second in 0 2 4 11 13 30; do
        echo "cpu,host=a busy=$second $((1772366400 + second))000000000"
        echo "cpu,host=b busy=50 $((1772366400 + second))000000000"
    done
} >/dev/tcp/127.0.0.1/"$port"
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
