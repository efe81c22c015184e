#!/usr/bin/env bash
# An alert by webhook: each row of a query is posted as JSON. The receiver is busy at first, so the sink tries again; the key of
# the request tells an alert that is sent again.
. "$(dirname "$0")/support.sh"
port=${PORT:-$(free_port)}

# What receives the alerts.
cat >receiver.py <<'PYTHON'
import http.server, sys
seen = set()
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        if self.headers["Authorization"] != "Bearer s3cret" or key not in seen:
            seen.add(key)
            self.send_error(503)
            return
        with open("received.csv", "ab") as received:
            received.write(key.encode() + b" " + body + b"\n")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
PYTHON
echo "key body" >received.csv
start receiver.log python3 receiver.py "$port"
wait_until bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"

cat >readings.csv <<'CSV'
at,machine,celsius
2026-03-01 12:00:00,press,81.5
2026-03-01 12:00:10,press,96.2
2026-03-01 12:00:20,oven,70.0
2026-03-01 12:01:30,oven,99.9
CSV
cat >alerts.sql <<'SQL'
CREATE SOURCE readings (at TIMESTAMP, machine VARCHAR, celsius DOUBLE, WATERMARK FOR at AS at) WITH (path = 'readings.csv');
CREATE SINK alerts FROM (SELECT machine, celsius FROM readings WHERE celsius > 95) WITH (
    connector = 'http', url = 'http://127.0.0.1:${ALERT_PORT}/', body = 'row', headers = 'Authorization: Bearer ${ALERT_TOKEN}');
SQL
tested alerts.sql <<'CASE'
95 degrees are not too hot.

=== rows readings
at,machine,celsius
2026-03-01 12:00:00,press,95.0
2026-03-01 12:00:01,press,95.1

=== expect alerts
machine,celsius
press,95.1
CASE
ALERT_PORT=$port ALERT_TOKEN=s3cret tidemill run alerts.sql
wait_until rows received.csv 2
cut -d ' ' -f 2- received.csv >alerts.csv
same alerts.csv <<'ROWS'
{"machine":"oven","celsius":99.9}
{"machine":"press","celsius":96.2}
ROWS
