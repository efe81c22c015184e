-- Linear Road's accounts and the last position of each car, for a server: the queries of types 2 and 3 are questions that any client
-- of PostgreSQL asks while the traffic continues. The views of linear_road.sql come first:
--
--     psql -h 127.0.0.1 -p 5433 -f examples/linear_road.sql -f examples/linear_road_accounts.sql
--
-- docs/guide/linear-road.md says how to define a source for live traffic before.

-- A car that enters the next segment of its trip pays the toll that it was told when it entered the last one. It pays also if
-- it enters in the exit lane, where it is told nothing.
CREATE VIEW charges AS
SELECT event_time, time, vid, told AS toll
FROM (
    SELECT entered.event_time, entered.time, entered.vid, opens_trip,
        lag(coalesce(toll, 0)) OVER (PARTITION BY entered.vid ORDER BY entered.event_time) AS told
    FROM (
        SELECT event_time, time, vid, xway, dir, seg, opens_trip FROM steps WHERE opens_trip OR seg <> last_seg
    ) AS entered
    LEFT JOIN segment_tolls
      ON  entered.xway = segment_tolls.xway AND entered.dir = segment_tolls.dir AND entered.seg = segment_tolls.seg
      AND entered.event_time >= segment_tolls.known_at
      AND entered.event_time < segment_tolls.known_at + INTERVAL '1 minute'
)
WHERE NOT opens_trip AND told > 0;

-- Type 2: the balance of an account, and when it was charged last. A car that has paid nothing has no row.
CREATE MATERIALIZED VIEW balances AS
SELECT vid, CAST(sum(toll) AS BIGINT) AS balance, max(time) AS charged_at FROM charges GROUP BY vid;

-- Type 3: what a car has paid on an expressway, so many days ago.
CREATE SOURCE IF NOT EXISTS history (vid BIGINT NOT NULL, day INTEGER NOT NULL, xway INTEGER NOT NULL, toll BIGINT)
WITH (path = 'linear-road/history.csv', header = false);
CREATE MATERIALIZED VIEW expenditures PRIMARY KEY (vid, day, xway) AS
SELECT vid, day, xway, toll FROM history;

-- Where each car was last.
CREATE MATERIALIZED VIEW positions PRIMARY KEY (vid) AS
SELECT vid, time, xway, lane, dir, seg, pos, speed FROM reports;
