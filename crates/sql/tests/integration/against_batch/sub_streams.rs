//! Queries that are applied to each sub-stream: in batch, one query for each of them, united.

use crate::against_batch::cases;

cases! { OneSource:
    mapped_rows: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, value * 2 FROM sub WHERE value > 3)))"
        => "{each}SELECT id, value * 2 FROM a WHERE {sub} AND value > 3";
    mapped_windows: "SELECT n, key, window_end, total, mean FROM mergestream(mapstream({split a}, (SELECT window_end,
        key, count(*) AS n, sum(value) AS total, avg(price) AS mean FROM tumble(TABLE(sub), at, {size})
        GROUP BY window_end, key)))"
        => "{each}SELECT count(*), key, window_end, sum(value), avg(price) FROM tumble_a WHERE {sub}
        GROUP BY window_end, key";
    mapped_windows_without_keys: "SELECT * FROM mergestream(mapstream({split a}, (SELECT window_start, min(name),
        count(DISTINCT value), count(*) FILTER (WHERE price > 100) FROM tumble(TABLE(sub) , at, {size}) GROUP BY
        window_start HAVING count(*) > 1)))"
        => "{each}SELECT window_start, min(name), count(DISTINCT value), count(*) FILTER (WHERE price > 100)
        FROM tumble_a WHERE {sub} GROUP BY window_start HAVING count(*) > 1";
    mapped_hops: "SELECT * FROM mergestream(mapstream({split a}, (SELECT name, window_start, count(*), max(value)
        FROM hop(TABLE(sub), at, {slide}, {size}) GROUP BY name, window_start)))"
        => "{each}SELECT name, window_start, count(*), max(value) FROM hop_a WHERE {sub} GROUP BY name, window_start";
    mapped_sessions: "SELECT * FROM mergestream(mapstream(splitstream(TABLE(a), 3, route => key % 3), (SELECT key,
        window_start, window_end, count(*), sum(value) FROM session(TABLE(sub), at, {gap})
        GROUP BY key, window_start, window_end)))"
        => "SELECT key, window_start, window_end, count(*), sum(value) FROM session_by_key_a WHERE key IS NOT NULL
        GROUP BY key, window_start, window_end";
    mapped_running: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, LAG(value) OVER (PARTITION BY key
        {in order}), count(*) OVER (PARTITION BY key {in order} ROWS UNBOUNDED PRECEDING) FROM sub)))"
        => "{each}SELECT id, LAG(value) OVER (PARTITION BY key {in order}), count(*) OVER (PARTITION BY key {in order}
        ROWS UNBOUNDED PRECEDING) FROM a WHERE {sub}";
    mapped_running_of_all: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, ROW_NUMBER() OVER ({in order})
        AS place FROM sub)))"
        => "{each}SELECT id, CAST(ROW_NUMBER() OVER ({in order}) AS BIGINT UNSIGNED) FROM a WHERE {sub}";
    mapped_top: "SELECT * FROM mergestream(mapstream({split a}, (SELECT key, window_end, n FROM (SELECT key,
        window_end, n, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC, key) AS place FROM (SELECT key,
        window_end, count(*) AS n FROM tumble(TABLE(sub), at, {size}) GROUP BY key, window_end)) WHERE place <= 2)))"
        => "{each}SELECT key, window_end, n FROM (SELECT key, window_end, n, ROW_NUMBER() OVER (PARTITION BY window_end
        ORDER BY n DESC, key) AS place FROM (SELECT key, window_end, count(*) AS n FROM tumble_a WHERE {sub}
        GROUP BY key, window_end)) WHERE place <= 2";
    mapped_self_join: "SELECT * FROM mergestream(mapstream({split a}, (SELECT x.id, y.id AS other FROM sub x JOIN sub y
        ON x.key = y.key AND y.at > x.at AND y.at <= x.at + {after})))"
        => "{each}SELECT x.id, y.id FROM (SELECT * FROM a WHERE {sub}) x JOIN (SELECT * FROM a WHERE {sub}) y
        ON x.key = y.key AND y.at > x.at AND y.at <= x.at + {after}";
    mapped_left_join: "SELECT * FROM mergestream(mapstream({split a}, (SELECT x.id, y.id AS other FROM sub x LEFT JOIN
        (SELECT id, key, at FROM sub WHERE value > 10) y ON x.key = y.key AND y.at >= x.at - {before} AND y.at <
        x.at)))"
        => "{each}SELECT x.id, y.id FROM (SELECT * FROM a WHERE {sub}) x LEFT JOIN (SELECT * FROM a WHERE {sub} AND
        value > 10) y ON x.key = y.key AND y.at >= x.at - {before} AND y.at < x.at";
    mapped_table_join: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, label, weight FROM sub
        LEFT JOIN dimension d ON sub.key = d.key)))"
        => "{each}SELECT id, label, weight FROM (SELECT * FROM a WHERE {sub}) a LEFT JOIN dimension d ON a.key = d.key";
    mapped_in_table: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id FROM sub WHERE key IN (SELECT key FROM
        dimension WHERE weight > 100))))"
        => "{each}SELECT id FROM a WHERE {sub} AND key IN (SELECT key FROM dimension WHERE weight > 100)";
    mapped_union: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, name FROM sub WHERE value > 9 UNION ALL
        SELECT value, name FROM sub)))"
        => "{each}SELECT id, name FROM a WHERE {sub} AND value > 9 UNION ALL SELECT value, name FROM a WHERE {sub}";
    mapped_windows_of_union: "SELECT * FROM mergestream(mapstream({split a}, (SELECT window_end, count(*), sum(v) FROM
        tumble((SELECT id AS v, at FROM sub UNION ALL SELECT value, at FROM sub), at, {size}) GROUP BY window_end)))"
        => "{each}SELECT window_end, count(*), sum(v) FROM (SELECT window_end, id AS v FROM tumble_a WHERE {sub} UNION
        ALL SELECT window_end, value FROM tumble_a WHERE {sub}) GROUP BY window_end";
    mapped_distinct: "SELECT * FROM mergestream(mapstream({split a}, (SELECT DISTINCT window_start, name FROM
        tumble(TABLE(sub), at, {size}))))"
        => "{each}SELECT DISTINCT window_start, name FROM tumble_a WHERE {sub}";
    mapped_windows_of_windows: "SELECT * FROM mergestream(mapstream({split a}, (SELECT window_end, count(*), max(n)
        FROM (SELECT window_end, key, count(*) AS n FROM tumble(TABLE(sub), at, {size}) GROUP BY window_end, key)
        GROUP BY window_end)))"
        => "{each}SELECT window_end, count(*), max(n) FROM (SELECT window_end, key, count(*) AS n FROM tumble_a WHERE
        {sub} GROUP BY window_end, key) GROUP BY window_end";
    mapped_with: "SELECT * FROM mergestream(mapstream({split a}, (WITH w AS (SELECT window_end, key, count(*) AS n FROM
        tumble(TABLE(sub), at, {size}) GROUP BY window_end, key) SELECT w.key, w.n, other.n AS of_other FROM w JOIN w
        other ON w.window_end = other.window_end AND w.n < other.n)))"
        => "{each}SELECT w.key, w.n, other.n FROM (SELECT window_end, key, count(*) AS n FROM tumble_a WHERE {sub} GROUP
        BY window_end, key) w JOIN (SELECT window_end, key, count(*) AS n FROM tumble_a WHERE {sub} GROUP BY window_end,
        key) other ON w.window_end = other.window_end AND w.n < other.n";
    partial_results_of_sub_streams: "SELECT window_end, sum(n), max(total) FROM mergestream(mapstream({split a},
        (SELECT window_end, count(*) AS n, sum(value) AS total FROM tumble(TABLE(sub), at, {size})
        GROUP BY window_end)))
        GROUP BY window_end"
        => "SELECT window_end, sum(n), max(total) FROM ({each}SELECT window_end, count(*) AS n, sum(value) AS total
        FROM tumble_a WHERE {sub} GROUP BY window_end) GROUP BY window_end";
    windows_around_sub_streams: "SELECT window_end, key, count(*) FROM mergestream(tumble({split a}, at, {size}))
        GROUP BY window_end, key"
        => "SELECT window_end, key, count(*) FROM ({each}SELECT * FROM tumble_a WHERE {sub}) GROUP BY window_end, key";
    dealt_windows: "SELECT * FROM mergestream(mapstream(splitstream(TABLE(a), 3, route => round_robin()),
        (SELECT window_end, count(*), sum(id) FROM tumble(TABLE(sub), at, {size}) GROUP BY window_end)))"
        => "SELECT window_end, count(*), sum(t.id) FROM tumble_a t JOIN numbered_a r ON t.id = r.id
        GROUP BY window_end, r.n % 3";
    dealt_windows_with_broadcast: "SELECT * FROM mergestream(mapstream(splitstream(TABLE(a), 3, route => round_robin(),
        broadcast => flag), (SELECT window_end, count(*), sum(id) FROM tumble(TABLE(sub), at, {size})
        GROUP BY window_end)))"
        => "SELECT window_end, count(*), sum(id) FROM (SELECT id, window_end, flag, CAST(ROW_NUMBER() OVER (PARTITION BY
        flag IS TRUE ORDER BY id) - 1 AS BIGINT) % 3 AS turn FROM tumble_a) JOIN (VALUES (0), (1), (2)) AS v(i) ON flag
        IS TRUE OR turn = i GROUP BY window_end, i";
    dealt_and_filtered: "SELECT id FROM mergestream(splitstream(TABLE(a), 3, route => round_robin())) WHERE value > 5"
        => "SELECT id FROM a WHERE value > 5";
    mapped_elements: "SELECT * FROM mergestream(mapstream({split a}, (SELECT id, unnest([value, id]) AS v FROM sub)))"
        => "{each}SELECT id, unnest([value, id]) AS v FROM a WHERE {sub}";
    mapped_windows_by_count: "SELECT * FROM mergestream(mapstream({split a}, (SELECT window_start, count(*), sum(value)
        FROM tumble(TABLE(sub), ROWS 3) GROUP BY window_start)))"
        => "{each}SELECT s, count(*), sum(value) FROM (SELECT value, CAST((ROW_NUMBER() OVER (ORDER BY id) - 1) AS
        BIGINT) / 3 * 3 AS s FROM a WHERE {sub}) GROUP BY s";
    mapped_windows_by_count_in_order: "SELECT * FROM mergestream(mapstream({split a}, (SELECT window_end, count(*),
        sum(id) FROM tumble(TABLE(sub), at, ROWS 3) GROUP BY window_end)))"
        => "{each}SELECT s + 3, count(*), sum(id) FROM (SELECT id, CAST((ROW_NUMBER() OVER (ORDER BY at, id) - 1) AS
        BIGINT) / 3 * 3 AS s FROM a WHERE {sub}) GROUP BY s";
    mapped_windows_by_count_of_keys: "SELECT * FROM mergestream(mapstream({split a}, (SELECT key, window_end, count(*)
        FROM tumble(TABLE(sub), ROWS 2, key => key) GROUP BY window_end, key)))"
        => "{each}SELECT key, s + 2, count(*) FROM (SELECT key, CAST((ROW_NUMBER() OVER (PARTITION BY key ORDER BY id)
        - 1) AS BIGINT) / 2 * 2 AS s FROM a WHERE {sub}) GROUP BY s, key";
}

cases! { TwoSources:
    mapped_join: "SELECT * FROM mergestream(mapstream(x => {split a}, y => {split b}, (SELECT x.id, y.id AS other FROM x
        JOIN y ON x.key = y.key AND x.at BETWEEN y.at - {before} AND y.at + {after})))"
        => "{each}SELECT x.id, y.id FROM (SELECT * FROM a WHERE {sub}) x JOIN (SELECT * FROM b WHERE {sub}) y
        ON x.key = y.key AND x.at BETWEEN y.at - {before} AND y.at + {after}";
    mapped_right_join: "SELECT * FROM mergestream(mapstream(x => {split a}, y => {split b}, (SELECT x.id, y.id AS other
        FROM x RIGHT JOIN y ON x.key = y.key AND x.at BETWEEN y.at - {before} AND y.at + {after})))"
        => "{each}SELECT x.id, y.id FROM (SELECT * FROM a WHERE {sub}) x RIGHT JOIN (SELECT * FROM b WHERE {sub}) y
        ON x.key = y.key AND x.at BETWEEN y.at - {before} AND y.at + {after}";
    mapped_join_with_what_is_not_split: "SELECT * FROM mergestream(mapstream({split a}, (SELECT sub.id, b.id AS other
        FROM sub LEFT JOIN b ON sub.key = b.key AND sub.at BETWEEN b.at - {before} AND b.at + {after})))"
        => "{each}SELECT x.id, b.id FROM (SELECT * FROM a WHERE {sub}) x LEFT JOIN b ON x.key = b.key
        AND x.at BETWEEN b.at - {before} AND b.at + {after}";
}
