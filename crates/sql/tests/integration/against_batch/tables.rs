//! Aggregates without a window: what is left at the end, however it was upserted.

use crate::against_batch::cases;

cases! { Table:
    table_of_counts: "SELECT key, count(*), count(value), sum(value), min(value), max(value) FROM a GROUP BY key";
    table_of_floats: "SELECT key, sum(price), avg(price), avg(value), min(price), max(price) FROM a GROUP BY key";
    table_of_statistics: "SELECT name, var(price), stddev(value), var_pop(value), count(DISTINCT key) FROM a GROUP BY
        name";
    table_of_two_keys: "SELECT key, name, count(*), min(name), max(at) FROM a GROUP BY key, name";
    table_of_filters: "SELECT key, count(*) FILTER (WHERE flag), sum(value) FILTER (WHERE price > 100) FROM a
        WHERE value IS NOT NULL GROUP BY key";
    table_of_flags: "SELECT flag, count(*), sum(value), median(value) FROM a GROUP BY flag";
    table_of_expressions: "SELECT key % 2 AS parity, sum(value) * 2 AS doubled, count(*) + 1 AS more FROM a
        GROUP BY key % 2";
    table_of_join: "SELECT label, count(*), sum(value) FROM a JOIN dimension d ON a.key = d.key GROUP BY label";
    table_of_union: "SELECT key, count(*), sum(value) FROM (SELECT key, value FROM a UNION ALL SELECT key, value FROM b)
        GROUP BY key";
    table_of_windows: "SELECT key, count(*), max(n) FROM (SELECT key, window_end, count(*) AS n FROM {hop a}
        GROUP BY key, window_end) GROUP BY key";
    table_of_distinct: "SELECT DISTINCT key, name FROM a";
}
