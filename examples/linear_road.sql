-- Linear Road in SQL alone: the toll and accident notifications for each car on an expressway.
--
--     tidemill linear-road generate --expressways 1 --minutes 30 --out linear-road
--     tidemill run examples/linear_road.sql
--
-- The answers, in linear-road/tolls.csv and linear-road/accidents.csv, are those of the application in
-- apps/linear-road, whose operator is written in Rust. Its accounts are left out here: linear_road_accounts.sql keeps them on a
-- server, and linear_road_split.sql has all four types in one query.

-- Cars report their position every 30 s (type 0); the other types are queries of drivers. Lines are ordered by time, so
-- there is no need to wait for late ones. On a server, a source that is defined before takes the place of this one.
CREATE SOURCE IF NOT EXISTS input (
    type SMALLINT, time INTEGER, vid BIGINT, speed INTEGER, xway INTEGER, lane INTEGER, dir INTEGER, seg INTEGER,
    pos INTEGER, qid BIGINT, sinit INTEGER, send INTEGER, dow INTEGER, tod INTEGER, day INTEGER,
    event_time AS to_timestamp_seconds(time),
    WATERMARK FOR event_time AS event_time
) WITH (path = 'linear-road/input.csv', header = false, ordered = true);

CREATE VIEW reports AS
SELECT event_time, time, vid, speed, xway, lane, dir, seg, pos
FROM input
WHERE type = 0;


-- Statistics of every segment (one mile of one direction of an expressway), minute by minute.

-- The mean speed of each car in each segment, because a car that reports twice in a minute counts once.
CREATE VIEW car_minutes AS
SELECT window_start, window_end, xway, dir, seg, vid, avg(speed) AS speed
FROM tumble(TABLE(reports), event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end, xway, dir, seg, vid;

-- The number of cars, and their mean speed.
CREATE VIEW segment_minutes AS
SELECT window_start AS minute_start, window_end AS minute_end, xway, dir, seg, count(*) AS cars, avg(speed) AS speed
FROM car_minutes
GROUP BY window_start, window_end, xway, dir, seg;

-- The latest average velocity: the mean over those of the last five minutes that had cars, all with the same weight. It is
-- known when the fifth has ended. A sum of means may be slightly below an integer, so a little is added before rounding down.
CREATE VIEW velocities AS
SELECT window_end AS known_at, xway, dir, seg, CAST(floor(avg(speed) + 1e-9) AS INTEGER) AS lav
FROM hop(TABLE(segment_minutes), minute_start, INTERVAL '1 minute', INTERVAL '5 minutes')
GROUP BY window_start, window_end, xway, dir, seg;


-- Trips: each report with the previous one of the same car.

CREATE VIEW followed AS
SELECT *,
    lag(time) OVER car AS last_time,
    lag(xway) OVER car AS last_xway,
    lag(dir) OVER car AS last_dir,
    lag(lane) OVER car AS last_lane,
    lag(seg) OVER car AS last_seg,
    lag(pos) OVER car AS last_pos
FROM reports
WINDOW car AS (PARTITION BY vid ORDER BY event_time);

-- A new trip: the car is new, left through the exit lane (4) before, was silent for long, or is on another road.
CREATE VIEW steps AS
SELECT *,
    last_time IS NULL OR last_lane = 4 OR time - last_time > 60 OR xway <> last_xway OR dir <> last_dir
        AS opens_trip
FROM followed;

-- Cars that enter a segment are notified, except for those that leave it at once.
CREATE VIEW entries AS
SELECT event_time, time, vid, xway, dir, seg
FROM steps
WHERE (opens_trip OR seg <> last_seg) AND lane <> 4;


-- Accidents: two cars that stand at the same place.

-- How many of a car's last three reports repeat the place of the one before them.
CREATE VIEW standing AS
SELECT event_time, vid, xway, dir, lane, seg, pos,
    count(*) FILTER (WHERE NOT opens_trip AND lane = last_lane AND pos = last_pos)
        OVER (PARTITION BY vid ORDER BY event_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS repeats
FROM steps;

-- A car has stopped when it has reported from one place four times in a row.
CREATE VIEW stopped AS
SELECT event_time, vid, xway, dir, lane, seg, pos
FROM standing
WHERE repeats = 3;

-- Reports of a stopped car while another one is stopped at the same place: the other's last report is less than 30 s
-- old, and as cars report every 30 s, it has not moved since.
CREATE VIEW collisions AS
SELECT report.event_time, report.xway, report.dir, report.seg
FROM stopped AS report JOIN stopped AS other
  ON  report.xway = other.xway AND report.dir = other.dir AND report.lane = other.lane AND report.pos = other.pos
  AND report.vid <> other.vid
  AND other.event_time > report.event_time - INTERVAL '30 seconds' AND other.event_time <= report.event_time;

-- The segments with an accident in a minute.
CREATE VIEW accidents AS
SELECT window_start, window_end, xway, dir, seg, count(*) AS reports
FROM tumble(TABLE(collisions), event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end, xway, dir, seg;

-- An accident concerns its own segment and the four before it. Direction 0 counts segments up, direction 1 down.
CREATE VIEW concerned AS
SELECT window_start, window_end, xway, dir, CASE dir WHEN 0 THEN seg - ahead ELSE seg + ahead END AS seg, ahead
FROM accidents CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS reach (ahead);

-- Of several accidents, the nearest one counts.
CREATE VIEW warnings AS
SELECT window_end AS known_at, xway, dir, seg, min(ahead) AS ahead
FROM concerned
GROUP BY window_start, window_end, xway, dir, seg;


-- Tolls: the price of entering a segment in the minute that begins at known_at. A toll is due if more than 50 cars were
-- slower than 40 miles per hour, and there is no accident ahead.
CREATE VIEW segment_tolls AS
SELECT velocities.known_at, velocities.xway, velocities.dir, velocities.seg, lav,
    CASE WHEN lav < 40 AND cars > 50 AND ahead IS NULL THEN 2 * (cars - 50) * (cars - 50) ELSE 0 END AS toll
FROM velocities
LEFT JOIN segment_minutes AS last_minute
  ON  velocities.known_at = last_minute.minute_end
  AND velocities.xway = last_minute.xway AND velocities.dir = last_minute.dir AND velocities.seg = last_minute.seg
LEFT JOIN warnings
  ON  velocities.known_at = warnings.known_at
  AND velocities.xway = warnings.xway AND velocities.dir = warnings.dir AND velocities.seg = warnings.seg;


-- The answers, in the benchmark's format. The input is a file, read as fast as possible, so the column for the time of the
-- answer holds the time of the report.

-- A segment without cars in the last five minutes has no velocity (-1), and costs nothing.
CREATE VIEW toll_notifications AS
SELECT 0 AS type, vid, time, time AS emit, coalesce(lav, -1) AS lav, coalesce(toll, 0) AS toll
FROM entries LEFT JOIN segment_tolls
  ON  entries.xway = segment_tolls.xway AND entries.dir = segment_tolls.dir AND entries.seg = segment_tolls.seg
  AND entries.event_time >= segment_tolls.known_at
  AND entries.event_time < segment_tolls.known_at + INTERVAL '1 minute';

CREATE VIEW accident_notifications AS
SELECT 1 AS type, time, time AS emit, vid,
    CASE entries.dir WHEN 0 THEN entries.seg + ahead ELSE entries.seg - ahead END AS seg
FROM entries JOIN warnings
  ON  entries.xway = warnings.xway AND entries.dir = warnings.dir AND entries.seg = warnings.seg
  AND entries.event_time >= warnings.known_at
  AND entries.event_time < warnings.known_at + INTERVAL '1 minute';

CREATE SINK tolls FROM toll_notifications
WITH (path = 'linear-road/tolls.csv', format = 'csv', header = false, overwrite = true);

CREATE SINK accident_warnings FROM accident_notifications
WITH (path = 'linear-road/accidents.csv', format = 'csv', header = false, overwrite = true);
