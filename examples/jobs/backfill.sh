#!/usr/bin/env bash
# Last month from Parquet, then what comes: a folder is read from its beginning and followed.
. "$(dirname "$0")/support.sh"

mkdir readings
cat >export.sql <<'SQL'
CREATE SINK old AS SELECT value AS sensor_reading, value % 3 AS sensor FROM sequence(count => 3000)
    WITH (path = 'readings/2026-02.parquet');
SQL
tidemill run export.sql
cat >latest.sql <<'SQL'
CREATE SOURCE readings (sensor_reading BIGINT, sensor BIGINT) WITH (path = 'readings', format = 'parquet', follow = true);
CREATE SINK high AS SELECT sensor, sensor_reading FROM readings WHERE sensor_reading % 1000 = 999 WITH (path = 'high.csv');
SQL
tested latest.sql <<'CASE'
=== rows readings
sensor_reading,sensor
998,1
999,2
1999,3

=== expect high
sensor,sensor_reading
2,999
3,1999
CASE
start tidemill.log tidemill run latest.sql
query=$started
wait_until rows high.csv 3
# The next file: written elsewhere and moved, so that it is complete when it is seen.
cat >more.sql <<'SQL'
CREATE SINK new AS SELECT value + 3000 AS sensor_reading, value % 3 AS sensor FROM sequence(count => 1000)
    WITH (path = 'next.parquet');
SQL
tidemill run more.sql
mv next.parquet readings/2026-03.parquet
wait_until rows high.csv 4
stop "$query"
same high.csv <<'ROWS'
0,999
1,1999
2,2999
0,3999
ROWS
