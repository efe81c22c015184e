-- The Yahoo Streaming Benchmark: how often were the advertisements of each campaign viewed, per ten seconds?
--
--     tidemill run examples/yahoo.sql
--
-- The original reads the events from Kafka and looks campaigns up in Redis; here both are generated. To read your own
-- events, declare `events` over a file or a socket instead: the other steps stay as they are.

-- What people did on web pages, in order of time: 25 s with a million events per second of event time, generated as fast as
-- they are read. Without `count` they never end; `rate => 1000` generates 1,000 per second.
CREATE VIEW events AS
SELECT ad_id, event_type, event_time
FROM yahoo_events(count => 25000000);

-- The campaign of each advertisement: 100 campaigns with 10 advertisements each. This table does not change.
CREATE VIEW campaigns AS
SELECT ad_id, campaign_id
FROM yahoo_campaigns();

-- Step 1, filter: only views count, neither clicks nor purchases.
CREATE VIEW views AS
SELECT ad_id, event_time
FROM events
WHERE event_type = 'view';

-- Step 2, join: the campaign of each view.
CREATE VIEW campaign_views AS
SELECT campaigns.campaign_id, views.event_time
FROM views JOIN campaigns ON views.ad_id = campaigns.ad_id;

-- Step 3, count: one row per campaign and window, as soon as the window is over.
CREATE VIEW campaign_counts AS
SELECT window_start, window_end, campaign_id, count(*) AS views
FROM tumble(TABLE(campaign_views), event_time, INTERVAL '10 seconds')
GROUP BY window_start, window_end, campaign_id;

-- The answer, on standard output.
CREATE SINK shown FROM campaign_counts WITH (connector = 'stdout', format = 'csv');
