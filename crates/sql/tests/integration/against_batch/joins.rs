//! Joins of two streams within a bound of time, and of a stream with a table.

use crate::against_batch::cases;

cases! { TwoSources:
    interval_inner: "SELECT a.id, b.id, a.key, a.value + b.value FROM a JOIN b ON a.key = b.key
        AND a.at BETWEEN b.at - {before} AND b.at + {after}";
    interval_left: "SELECT a.id, b.id, b.name, a.at, b.at FROM a LEFT JOIN b ON a.key = b.key
        AND a.at BETWEEN b.at - {before} AND b.at + {after}";
    interval_right: "SELECT a.id, b.id, b.name FROM a RIGHT JOIN b ON a.key = b.key
        AND a.at BETWEEN b.at - {before} AND b.at + {after}";
    interval_after: "SELECT a.id, b.id FROM a JOIN b ON a.key = b.key AND b.at > a.at AND b.at <= a.at + {after}";
    interval_left_before: "SELECT a.id, b.id FROM a LEFT JOIN b ON a.key = b.key AND b.at >= a.at - {before} AND b.at
        < a.at";
    interval_where: "SELECT a.id, b.id FROM a, b WHERE a.key = b.key AND a.at >= b.at - {before} AND a.at < b.at +
        {after}
        AND a.value > b.value";
    interval_left_further: "SELECT a.id, b.id, b.price FROM a LEFT JOIN b ON a.key = b.key AND a.name = b.name
        AND a.at BETWEEN b.at - {before} AND b.at + {after} AND a.value < b.value";
    interval_without_keys: "SELECT a.id, b.id FROM a JOIN b ON a.at BETWEEN b.at - {before} AND b.at";
    interval_of_expressions: "SELECT a.id, b.id FROM a LEFT JOIN b ON a.key + 1 = b.key AND upper(a.name) =
        upper(b.name)
        AND a.at BETWEEN b.at - {before} AND b.at + {after}";
    equal_times: "SELECT a.id, b.id FROM a JOIN b ON a.key = b.key AND a.at = b.at";
    joined_windows: "SELECT x.key, x.window_end, x.n, y.total FROM (SELECT key, window_end, count(*) AS n FROM
        {tumble a}
        GROUP BY key, window_end) x JOIN (SELECT key, window_end, sum(value) AS total FROM {tumble b}
        GROUP BY key, window_end) y ON x.key = y.key AND x.window_end = y.window_end";
    left_joined_windows: "SELECT x.key, x.window_end, x.n, y.total FROM (SELECT key, window_end, count(*) AS n FROM
        {hop a}
        GROUP BY key, window_end) x LEFT JOIN (SELECT key, window_end, sum(value) AS total FROM {hop b}
        GROUP BY key, window_end) y ON x.key = y.key AND x.window_end = y.window_end";
    windows_of_join: "SELECT window_end, key, count(*), sum(value) FROM tumble((SELECT a.at, a.key, b.value FROM a
        JOIN b ON
        a.key = b.key AND a.at BETWEEN b.at - {before} AND b.at + {after}), at, {size}) GROUP BY window_end, key"
        => "SELECT a.window_end, a.key, count(*), sum(b.value) FROM tumble_a a JOIN b ON a.key = b.key AND a.at BETWEEN
        b.at - {before} AND b.at + {after} GROUP BY a.window_end, a.key";
    windows_of_left_join: "SELECT window_end, key, count(*), count(value) FROM tumble((SELECT a.at, a.key, b.value
        FROM a
        LEFT JOIN b ON a.key = b.key AND a.at BETWEEN b.at - {before} AND b.at + {after}), at, {size})
        GROUP BY window_end, key"
        => "SELECT a.window_end, a.key, count(*), count(b.value) FROM tumble_a a LEFT JOIN b ON a.key = b.key AND a.at
        BETWEEN b.at - {before} AND b.at + {after} GROUP BY a.window_end, a.key";
    three_way: "SELECT a.id, b.id, c.id FROM a JOIN b ON a.key = b.key AND a.at BETWEEN b.at - {before} AND b.at
        JOIN b c ON a.key = c.key AND a.at BETWEEN c.at AND c.at + {after}";
}

cases! { OneSource:
    self_join: "SELECT x.id, y.id FROM a x JOIN a y ON x.key = y.key AND y.at > x.at AND y.at <= x.at + {after}";
    self_join_left: "SELECT x.id, y.id FROM a x LEFT JOIN a y ON x.key = y.key AND y.at >= x.at - {before} AND y.at <
        x.at";
    table_inner: "SELECT id, a.key, label, weight * value FROM a JOIN dimension d ON a.key = d.key";
    table_left: "SELECT id, a.key, label, weight FROM a LEFT JOIN dimension d ON a.key = d.key";
    table_left_further: "SELECT id, label, weight FROM a LEFT JOIN dimension d ON a.key = d.key AND weight > price";
    table_two_keys: "SELECT id, label, weight FROM a JOIN dimension d ON a.key = d.key AND a.name = d.label";
    table_of_query: "SELECT id, heaviest FROM a LEFT JOIN (SELECT key, max(weight) AS heaviest, count(*) AS n FROM
        dimension
        GROUP BY key) d ON a.key = d.key WHERE a.flag";
    windows_of_table_join: "SELECT label, window_end, count(*), sum(value) FROM (SELECT * FROM {tumble a}) t
        JOIN dimension d ON t.key = d.key GROUP BY label, window_end";
    windows_of_left_table_join: "SELECT label, window_end, count(*), sum(value) FROM {tumble a} t
        LEFT JOIN dimension d ON t.key = d.key WHERE flag GROUP BY label, window_end";
    table_join_of_windows: "SELECT label, window_end, n FROM (SELECT key, window_end, count(*) AS n FROM {hop a}
        GROUP BY key, window_end) t LEFT JOIN dimension d ON t.key = d.key";
    in_table: "SELECT id FROM a WHERE key IN (SELECT key FROM dimension WHERE weight > 100)";
    exists_in_table: "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM dimension d WHERE d.key = a.key AND weight > 100)";
    not_in_table: "SELECT id FROM a WHERE key NOT IN (SELECT key FROM dimension WHERE key IS NOT NULL)";
    in_table_of_windows: "SELECT key, window_end, n FROM (SELECT key, window_end, count(*) AS n FROM {tumble a}
        GROUP BY key, window_end) WHERE key IN (SELECT key FROM dimension)";
    exists_further: "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM dimension d WHERE d.key = a.key AND d.weight >
        a.value)";
    not_exists_in_table: "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM dimension d WHERE d.key = a.key)";
}
