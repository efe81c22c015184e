-- Linear Road over sub-streams: all four kinds of answers, as one query on each direction of each expressway.
--
--     tidemill linear-road generate --expressways 2 --minutes 30 --out linear-road
--     tidemill run examples/linear_road_split.sql
--
-- Position reports (type 0) go to the sub-stream of their expressway and direction, and so do queries for what was paid
-- on an earlier day (type 3). A car pays on several expressways, so a query for the balance of its account (type 2) goes
-- to all sub-streams: each adds up what the car paid there, and a tree adds up these partial balances. This is the plan of
-- the thesis (Zeitler, Papers IV and V). The rules are explained in linear_road.sql.

-- 64 sub-streams serve 32 expressways.
CREATE SOURCE input (
    type SMALLINT, time INTEGER, vid BIGINT, speed INTEGER, xway INTEGER, lane INTEGER, dir INTEGER, seg INTEGER,
    pos INTEGER, qid BIGINT, sinit INTEGER, send INTEGER, dow INTEGER, tod INTEGER, day INTEGER,
    event_time AS to_timestamp_seconds(time),
    WATERMARK FOR event_time AS event_time
) WITH (path = 'linear-road/input.csv', header = false, ordered = true);

-- What each car paid on each of the last 69 days.
CREATE TABLE history (vid BIGINT, day INTEGER, xway INTEGER, toll BIGINT)
WITH (path = 'linear-road/history.csv', header = false);

CREATE VIEW answers AS
SELECT * FROM mergestream(mapstream(
    splitstream((SELECT * FROM input WHERE type IN (0, 2, 3)), 64,
        route => CASE type WHEN 0 THEN 2 * xway + dir WHEN 3 THEN 2 * xway END,
        broadcast => type = 2),
    (
        WITH reports AS (
            SELECT event_time, time, vid, speed, xway, lane, dir, seg, pos FROM sub WHERE type = 0
        ),

        -- Statistics of every segment, minute by minute.
        car_minutes AS (
            SELECT window_start, window_end, xway, dir, seg, vid, avg(speed) AS speed
            FROM tumble((SELECT * FROM reports), event_time, INTERVAL '1 minute')
            GROUP BY window_start, window_end, xway, dir, seg, vid
        ),
        segment_minutes AS (
            SELECT window_start AS minute_start, window_end AS minute_end, xway, dir, seg, count(*) AS cars,
                avg(speed) AS speed
            FROM car_minutes
            GROUP BY window_start, window_end, xway, dir, seg
        ),
        velocities AS (
            SELECT window_end AS known_at, xway, dir, seg, CAST(floor(avg(speed) + 1e-9) AS INTEGER) AS lav
            FROM hop((SELECT * FROM segment_minutes), minute_start, INTERVAL '1 minute', INTERVAL '5 minutes')
            GROUP BY window_start, window_end, xway, dir, seg
        ),

        -- Trips: each report with the previous one of the same car.
        followed AS (
            SELECT *,
                lag(time) OVER (PARTITION BY vid ORDER BY event_time) AS last_time,
                lag(xway) OVER (PARTITION BY vid ORDER BY event_time) AS last_xway,
                lag(dir) OVER (PARTITION BY vid ORDER BY event_time) AS last_dir,
                lag(lane) OVER (PARTITION BY vid ORDER BY event_time) AS last_lane,
                lag(seg) OVER (PARTITION BY vid ORDER BY event_time) AS last_seg,
                lag(pos) OVER (PARTITION BY vid ORDER BY event_time) AS last_pos
            FROM reports
        ),
        steps AS (
            SELECT *,
                last_time IS NULL OR last_lane = 4 OR time - last_time > 60 OR xway <> last_xway OR dir <> last_dir
                    AS opens_trip
            FROM followed
        ),
        entries AS (
            SELECT event_time, time, vid, xway, dir, seg, lane, opens_trip
            FROM steps
            WHERE opens_trip OR seg <> last_seg
        ),

        -- Accidents: two cars that stand at the same place.
        standing AS (
            SELECT event_time, vid, xway, dir, lane, seg, pos,
                count(*) FILTER (WHERE NOT opens_trip AND lane = last_lane AND pos = last_pos)
                    OVER (PARTITION BY vid ORDER BY event_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS repeats
            FROM steps
        ),
        stopped AS (
            SELECT event_time, vid, xway, dir, lane, seg, pos FROM standing WHERE repeats = 3
        ),
        collisions AS (
            SELECT report.event_time, report.xway, report.dir, report.seg
            FROM stopped AS report JOIN stopped AS other
              ON  report.xway = other.xway AND report.dir = other.dir AND report.lane = other.lane
              AND report.pos = other.pos AND report.vid <> other.vid
              AND other.event_time > report.event_time - INTERVAL '30 seconds'
              AND other.event_time <= report.event_time
        ),
        accidents AS (
            SELECT window_start, window_end, xway, dir, seg, count(*) AS reports
            FROM tumble((SELECT * FROM collisions), event_time, INTERVAL '1 minute')
            GROUP BY window_start, window_end, xway, dir, seg
        ),
        concerned AS (
            SELECT window_start, window_end, xway, dir, CASE dir WHEN 0 THEN seg - ahead ELSE seg + ahead END AS seg,
                ahead
            FROM accidents CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS reach (ahead)
        ),
        warnings AS (
            SELECT window_end AS known_at, xway, dir, seg, min(ahead) AS ahead
            FROM concerned
            GROUP BY window_start, window_end, xway, dir, seg
        ),

        -- Tolls, and what is told to the cars that enter a segment.
        segment_tolls AS (
            SELECT velocities.known_at, velocities.xway, velocities.dir, velocities.seg, lav,
                CASE WHEN lav < 40 AND cars > 50 AND ahead IS NULL THEN 2 * (cars - 50) * (cars - 50) ELSE 0 END AS toll
            FROM velocities
            LEFT JOIN segment_minutes AS last_minute
              ON  velocities.known_at = last_minute.minute_end
              AND velocities.xway = last_minute.xway AND velocities.dir = last_minute.dir
              AND velocities.seg = last_minute.seg
            LEFT JOIN warnings
              ON  velocities.known_at = warnings.known_at
              AND velocities.xway = warnings.xway AND velocities.dir = warnings.dir AND velocities.seg = warnings.seg
        ),
        priced AS (
            SELECT entries.event_time, time, vid, lane, opens_trip, coalesce(lav, -1) AS lav, coalesce(toll, 0) AS toll
            FROM entries LEFT JOIN segment_tolls
              ON  entries.xway = segment_tolls.xway AND entries.dir = segment_tolls.dir
              AND entries.seg = segment_tolls.seg
              AND entries.event_time >= segment_tolls.known_at
              AND entries.event_time < segment_tolls.known_at + INTERVAL '1 minute'
        ),
        warned AS (
            SELECT entries.event_time, time, vid,
                CASE entries.dir WHEN 0 THEN entries.seg + ahead ELSE entries.seg - ahead END AS seg
            FROM entries JOIN warnings
              ON  entries.xway = warnings.xway AND entries.dir = warnings.dir AND entries.seg = warnings.seg
              AND entries.event_time >= warnings.known_at
              AND entries.event_time < warnings.known_at + INTERVAL '1 minute'
            WHERE lane <> 4
        ),

        -- Accounts: who enters a segment pays the toll that was told for the segment before, unless a trip begins.
        charged AS (
            SELECT event_time, vid, opens_trip, lag(toll) OVER (PARTITION BY vid ORDER BY event_time) AS told
            FROM priced
        ),
        account_lines AS (
            SELECT event_time, vid, told AS charge, CAST(NULL AS BIGINT) AS qid, CAST(NULL AS INTEGER) AS time
            FROM charged WHERE NOT opens_trip AND told > 0
            UNION ALL
            SELECT event_time, vid, 0 AS charge, qid, time FROM sub WHERE type = 2
        ),
        -- The charges of the query's own second count.
        balances AS (
            SELECT event_time, time, qid,
                sum(charge) OVER (PARTITION BY vid ORDER BY event_time
                    RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS balance
            FROM account_lines
        ),

        -- What a car paid on an earlier day.
        expenditures AS (
            SELECT event_time, time, qid, history.toll AS paid
            FROM sub JOIN history ON sub.vid = history.vid AND sub.day = history.day AND sub.xway = history.xway
            WHERE type = 3
        )

        SELECT 0 AS type, event_time, time, vid, CAST(NULL AS BIGINT) AS qid, CAST(lav AS BIGINT) AS found, toll AS amount
        FROM priced WHERE lane <> 4
        UNION ALL
        SELECT 1, event_time, time, vid, CAST(NULL AS BIGINT), CAST(seg AS BIGINT), CAST(NULL AS BIGINT) FROM warned
        UNION ALL
        SELECT 2, event_time, time, CAST(NULL AS BIGINT), qid, CAST(NULL AS BIGINT), balance
        FROM balances WHERE qid IS NOT NULL
        UNION ALL
        SELECT 3, event_time, time, CAST(NULL AS BIGINT), qid, CAST(NULL AS BIGINT), paid FROM expenditures
    )));

-- The answers, in the benchmark's format. The input is a file, read as fast as possible, so the column for the time of the
-- answer holds the time of the report.

CREATE VIEW toll_notifications AS
SELECT type, vid, time, time AS emit, found AS lav, amount AS toll FROM answers WHERE type = 0;

CREATE VIEW accident_notifications AS
SELECT type, time, time AS emit, vid, found AS seg FROM answers WHERE type = 1;

-- The partial balances of a query are added up: first on each worker, then by the query's number.
CREATE VIEW account_balances AS
SELECT CAST(2 AS SMALLINT) AS type, time, time AS emit, time AS result_time, qid, sum(amount) AS balance
FROM tumble((SELECT event_time, time, qid, amount FROM answers WHERE type = 2), event_time, INTERVAL '1 second')
GROUP BY window_end, time, qid;

CREATE VIEW daily_expenditures AS
SELECT type, time, time AS emit, qid, amount AS paid FROM answers WHERE type = 3;

CREATE SINK tolls FROM toll_notifications
WITH (path = 'linear-road/type0.csv', format = 'csv', header = false, overwrite = true);

CREATE SINK accident_warnings FROM accident_notifications
WITH (path = 'linear-road/type1.csv', format = 'csv', header = false, overwrite = true);

CREATE SINK accounts FROM account_balances
WITH (path = 'linear-road/type2.csv', format = 'csv', header = false, overwrite = true);

CREATE SINK expenditures FROM daily_expenditures
WITH (path = 'linear-road/type3.csv', format = 'csv', header = false, overwrite = true);
