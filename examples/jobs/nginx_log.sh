#!/usr/bin/env bash
# Requests and errors per minute from the log of nginx, which is rotated while it is read.
. "$(dirname "$0")/support.sh"

cat >minutes.sql <<'SQL'
CREATE SOURCE lines (
    line VARCHAR,
    at AS to_timestamp(regexp_match(line, '\[([^\]]+)\]')[1], '%d/%b/%Y:%H:%M:%S %z'),
    WATERMARK FOR at AS at - INTERVAL '2 seconds'
) WITH (path = 'access.log', format = 'lines', follow = true);

CREATE VIEW requests AS
    SELECT at, CAST(regexp_match(line, '" ([0-9]{3}) ')[1] AS INT) AS status FROM lines;

CREATE SINK minutes AS
    SELECT window_start AS minute, count(*) AS requests, count(*) FILTER (WHERE status >= 500) AS errors
    FROM tumble(TABLE(requests), at, INTERVAL '1 minute') GROUP BY window_start, window_end
WITH (path = 'minutes.csv');
SQL

tested minutes.sql <<'CASE'
A line that is no request has no time and is left out; a minute is complete two seconds after it has passed.

=== text lines
10.0.0.7 - - [01/Mar/2026:12:00:01 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5"
nginx: reopened
10.0.0.7 - - [01/Mar/2026:13:00:59 +0100] "GET / HTTP/1.1" 503 512 "-" "curl/8.5"
10.0.0.7 - - [01/Mar/2026:12:01:02 +0000] "GET / HTTP/1.1" 500 512 "-" "curl/8.5"
=== stop

=== expect minutes
minute,requests,errors
2026-03-01 12:00:00,2,1

=== dead letters lines
reason
it has no event time
CASE

# request SECOND STATUS: one line of the log.
request() {
    printf '10.0.0.7 - - [01/Mar/2026:12:%02d:%02d +0000] "GET /shoes HTTP/1.1" %s 512 "-" "curl/8.5"\n' \
        $(($1 / 60)) $(($1 % 60)) "$2" >>access.log
}

request 1 200
request 30 502
start tidemill.log tidemill run minutes.sql
running_query=$started
wait_until rows minutes.csv 0
# As logrotate does it: the old file is renamed, and nginx opens a new one.
request 59 200
mv access.log access.log.1
request 61 200
request 62 500
request 63 404
wait_until test -s access.log
request 130 200
request 200 200
wait_until rows minutes.csv 3
stop "$running_query"
same minutes.csv <<'ROWS'
2026-03-01 12:00:00,3,1
2026-03-01 12:01:00,3,1
2026-03-01 12:02:00,1,0
ROWS
