#!/usr/bin/env bash
# Visits: a user's clicks belong together as long as no pause is longer than ten minutes.
. "$(dirname "$0")/support.sh"

cat >clicks.csv <<'CSV'
at,user,page
2026-03-01 12:00:00,ada,/
2026-03-01 12:00:40,bob,/
2026-03-01 12:05:00,ada,/shoes
2026-03-01 12:14:59,ada,/cart
2026-03-01 12:30:00,ada,/
2026-03-01 12:31:00,ada,/hats
CSV
cat >visits.sql <<'SQL'
CREATE SOURCE clicks (at TIMESTAMP, "user" VARCHAR, page VARCHAR, WATERMARK FOR at AS at - INTERVAL '1 minute')
    WITH (path = 'clicks.csv');
CREATE SINK visits AS
    SELECT "user", window_start AS began, count(*) AS clicks, first_value(page) AS landed, last_value(page) AS left_at
    FROM session(TABLE(clicks), at, INTERVAL '10 minutes') GROUP BY "user", window_start, window_end
WITH (path = 'visits.csv');
SQL
tested visits.sql <<'CASE'
A pause of more than ten minutes ends a visit; one of ten minutes less a second does not.

=== rows clicks
at,user,page
2026-03-01 12:00:00,ada,/
2026-03-01 12:09:59,ada,/shoes
2026-03-01 12:20:00,ada,/cart

=== expect visits
user,began,clicks,landed,left_at
ada,2026-03-01 12:00:00,2,/,/shoes
ada,2026-03-01 12:20:00,1,/cart,/cart
CASE
tidemill run visits.sql
same visits.csv <<'ROWS'
ada,2026-03-01 12:00:00,3,/,/cart
ada,2026-03-01 12:30:00,2,/,/hats
bob,2026-03-01 12:00:40,1,/,/
ROWS
