//! Running functions and aggregates.

use crate::against_batch::cases;

cases! { OneSource:
    range_counts: "SELECT id, count(*) OVER (PARTITION BY key ORDER BY at), sum(value) OVER (PARTITION BY key ORDER
        BY at),
        count(name) OVER (PARTITION BY key ORDER BY at) FROM a";
    range_extremes: "SELECT id, min(value) OVER (PARTITION BY key ORDER BY at RANGE BETWEEN {size} PRECEDING AND CURRENT
        ROW), max(price) OVER (PARTITION BY key ORDER BY at RANGE BETWEEN {size} PRECEDING AND CURRENT ROW),
        max(name) OVER (PARTITION BY key ORDER BY at RANGE BETWEEN {gap} PRECEDING AND CURRENT ROW) FROM a";
    range_sums: "SELECT id, sum(value) OVER w, avg(price) OVER w, count(*) OVER w, avg(value) OVER w FROM a
        WINDOW w AS (PARTITION BY key ORDER BY at RANGE BETWEEN {size} PRECEDING AND CURRENT ROW)";
    range_of_peers: "SELECT id, count(*) OVER (PARTITION BY key ORDER BY at RANGE BETWEEN CURRENT ROW AND CURRENT ROW),
        sum(value) OVER (PARTITION BY key ORDER BY at RANGE BETWEEN CURRENT ROW AND CURRENT ROW) FROM a";
    rows_sums: "SELECT id, sum(value) OVER w, avg(price) OVER w, count(value) OVER w, min(value) OVER w, max(name)
        OVER w
        FROM a WINDOW w AS (PARTITION BY key {in order} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)";
    rows_from_first: "SELECT id, sum(price) OVER w, avg(value) OVER w, count(*) OVER w, min(price) OVER w, max(value)
        OVER w
        FROM a WINDOW w AS (PARTITION BY key {in order} ROWS UNBOUNDED PRECEDING)";
    rows_of_one: "SELECT id, sum(value) OVER w, min(name) OVER w FROM a
        WINDOW w AS (PARTITION BY key {in order} ROWS BETWEEN CURRENT ROW AND CURRENT ROW)";
    rows_without_keys: "SELECT id, sum(value) OVER w, first_value(name) OVER w, count(flag) OVER w FROM a
        WINDOW w AS ({in order} ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)";
    lags: "SELECT id, LAG(value) OVER w, LAG(name, 2) OVER w, LAG(value, 3, -1) OVER w, LAG(at) OVER w FROM a
        WINDOW w AS (PARTITION BY key {in order})";
    numbers: "SELECT id, ROW_NUMBER() OVER (PARTITION BY key {in order}) FROM a";
    ranks: "SELECT id, RANK() OVER (PARTITION BY key ORDER BY at), DENSE_RANK() OVER (PARTITION BY key ORDER BY at)
        FROM a";
    values_of_frames: "SELECT id, first_value(value) OVER w, last_value(name) OVER w, nth_value(value, 2) OVER w FROM a
        WINDOW w AS (PARTITION BY key {in order} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)";
    values_from_first: "SELECT id, first_value(value) OVER w, last_value(price) OVER w, nth_value(name, 3) OVER w FROM a
        WINDOW w AS (PARTITION BY key {in order} ROWS UNBOUNDED PRECEDING)";
    running_filters: "SELECT id, count(*) FILTER (WHERE flag) OVER w, sum(value) FILTER (WHERE price > 100) OVER w,
        min(value) FILTER (WHERE NOT flag) OVER w FROM a
        WINDOW w AS (PARTITION BY key {in order} ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)";
    running_of_two_keys: "SELECT id, count(*) OVER (PARTITION BY key, name ORDER BY at), max(value) OVER (PARTITION
        BY key,
        name ORDER BY at) FROM a";
    running_of_expressions: "SELECT id, sum(value * 2) OVER w, count(*) OVER w FROM a WHERE value > 0
        WINDOW w AS (PARTITION BY key % 2 {in order} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)";
    changes: "SELECT id, value, before FROM (SELECT id, value, LAG(value) OVER (PARTITION BY key {in order}) AS before
        FROM a) WHERE value > before";
    first_of_each_key: "SELECT id, key FROM (SELECT id, key, ROW_NUMBER() OVER (PARTITION BY key {in order}) AS place
        FROM a) WHERE place = 1";
    windows_of_running: "SELECT window_end, key, max(n), sum(before) FROM tumble((SELECT key, at, count(*) OVER
        (PARTITION BY
        key ORDER BY at) AS n, LAG(value) OVER (PARTITION BY key {in order}) AS before FROM a), at, {size})
        GROUP BY window_end, key"
        => "SELECT window_end, key, max(n), sum(before) FROM (SELECT key, window_end, count(*) OVER (PARTITION BY key
        ORDER BY at) AS n, LAG(value) OVER (PARTITION BY key {in order}) AS before FROM tumble_a)
        GROUP BY window_end, key";
}
