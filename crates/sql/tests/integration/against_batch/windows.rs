//! Windows, and what is computed of windows.

use crate::against_batch::cases;

cases! { OneSource:
    tumble_counts: "SELECT window_start, window_end, key, count(*), count(value), sum(value), min(value), max(value)
        FROM {tumble a} GROUP BY window_start, window_end, key";
    tumble_floats: "SELECT key, window_end, sum(price), avg(price), avg(value), min(price), max(price)
        FROM {tumble a} GROUP BY key, window_end";
    tumble_variance: "SELECT key, window_end, var(price), var_pop(price), stddev(value), stddev_pop(price)
        FROM {tumble a} GROUP BY key, window_end";
    tumble_texts: "SELECT name, window_start, min(name), max(name), count(DISTINCT name), count(DISTINCT value)
        FROM {tumble a} GROUP BY window_start, name";
    tumble_extreme_texts: "SELECT window_start, min(name), max(name), count(DISTINCT name), min(at), max(at)
        FROM {tumble a} GROUP BY window_start";
    tumble_filters: "SELECT key, window_end, count(*) FILTER (WHERE flag), sum(value) FILTER (WHERE price > 100),
        avg(price) FILTER (WHERE name = 'a'), min(value) FILTER (WHERE NOT flag) FROM {tumble a} GROUP BY key,
        window_end";
    tumble_without_keys: "SELECT window_start, count(*), sum(value), avg(price) FROM {tumble a} GROUP BY window_start";
    tumble_two_keys: "SELECT key, name, window_end, count(*), sum(value) FROM {tumble a} GROUP BY key, name,
        window_end";
    tumble_key_of_expression: "SELECT key % 2, upper(name), window_end, sum(value + 1) FROM {tumble a}
        WHERE value IS NOT NULL GROUP BY key % 2, upper(name), window_end";
    tumble_booleans: "SELECT flag, window_end, count(*), bool_and(flag), bool_or(value > 10) FROM {tumble a}
        GROUP BY flag, window_end";
    tumble_distinct_sums: "SELECT key, window_end, sum(DISTINCT value), count(DISTINCT price), avg(DISTINCT value)
        FROM {tumble a} GROUP BY key, window_end";
    tumble_median: "SELECT key, window_end, median(value), corr(value, price), approx_distinct(value)
        FROM {tumble a} GROUP BY key, window_end";
    tumble_having: "SELECT key, window_end, count(*) AS n FROM {tumble a} GROUP BY key, window_end
        HAVING count(*) > 1 AND sum(value) > 20";
    tumble_of_filtered: "SELECT key, window_end, count(*) FROM {tumble a} WHERE flag AND price > 50
        GROUP BY key, window_end";
    tumble_rows: "SELECT id, window_start, window_end, window_end - window_start AS size FROM {tumble a}";
    tumble_computed_results: "SELECT key, CASE WHEN count(*) > 1 THEN sum(value) * 2 ELSE NULL END AS doubled,
        window_end
        FROM {tumble a} GROUP BY key, window_end";
    tumble_distinct: "SELECT DISTINCT window_start, key, name FROM {tumble a}";
    hop_counts: "SELECT window_start, window_end, key, count(*), sum(value), min(price), max(price), avg(value)
        FROM {hop a} GROUP BY window_start, window_end, key";
    hop_statistics: "SELECT window_end, var(price), stddev(value), count(DISTINCT name), count(DISTINCT key), max(name)
        FROM {hop a} GROUP BY window_end";
    hop_filters: "SELECT key, window_end, count(*) FILTER (WHERE flag), sum(value) FILTER (WHERE price > 100)
        FROM {hop a} WHERE value > 0 GROUP BY key, window_end HAVING count(*) < 4";
    hop_distinct: "SELECT DISTINCT window_start, window_end, name FROM {hop a}";
    session_of_keys: "SELECT key, window_start, window_end, count(*), sum(value), avg(price), min(name)
        FROM {session by key a} GROUP BY key, window_start, window_end";
    session_statistics: "SELECT key, window_start, window_end, var(price), count(DISTINCT name),
        count(*) FILTER (WHERE flag), max(price) FROM {session by key a} GROUP BY key, window_start, window_end";
    session_of_all: "SELECT window_start, window_end, count(*), count(DISTINCT key), sum(value)
        FROM {session a} GROUP BY window_start, window_end HAVING count(*) > 1";
    top_of_windows: "SELECT * FROM (SELECT key, window_end, n, total, ROW_NUMBER() OVER (PARTITION BY window_end
        ORDER BY n DESC, key) AS place FROM (SELECT key, window_end, count(*) AS n, sum(value) AS total FROM {tumble a}
        GROUP BY key, window_end)) WHERE place <= 2";
    top_of_hops: "SELECT * FROM (SELECT key, window_end, total, ROW_NUMBER() OVER (PARTITION BY window_end
        ORDER BY total DESC NULLS LAST, key NULLS FIRST) AS place FROM (SELECT key, window_end, sum(value) AS total
        FROM {hop a} GROUP BY key, window_end)) WHERE place < 3";
    rank_of_windows: "SELECT window_end, key, place FROM (SELECT key, window_end, RANK() OVER (PARTITION BY window_end
        ORDER BY n) AS place FROM (SELECT key, window_end, count(*) AS n FROM {tumble a} GROUP BY key, window_end))
        WHERE place <= 2";
    dense_rank_of_windows: "SELECT window_end, key, place FROM (SELECT key, window_end, DENSE_RANK() OVER (PARTITION BY
        window_end ORDER BY n DESC) AS place FROM (SELECT key, window_end, count(*) AS n FROM {tumble a}
        GROUP BY key, window_end)) WHERE place <= 2";
    windows_of_windows: "SELECT window_end, count(*), sum(n), max(n) FROM (SELECT window_end, key, count(*) AS n
        FROM {tumble a} GROUP BY window_end, key) GROUP BY window_end";
    windows_of_hops: "SELECT window_end, count(*), sum(n), avg(total) FROM (SELECT window_end, key, count(*) AS n,
        sum(value) AS total FROM {hop a} GROUP BY window_end, key) GROUP BY window_end";
    windows_of_starts: "SELECT window_start, count(*), sum(n) FROM (SELECT window_start, window_end, key, count(*) AS n
        FROM {hop a} GROUP BY window_start, window_end, key) GROUP BY window_start";
    larger_windows_of_windows: "SELECT window_start, window_end, sum(n), max(n) FROM tumble((SELECT key,
        window_start AS first, count(*) AS n FROM {tumble a} GROUP BY key, window_start), first,
        INTERVAL '8 seconds') GROUP BY window_start, window_end"
        => "SELECT date_bin(INTERVAL '8 seconds', first, TIMESTAMP '1970-01-01T00:00:00') AS s,
        date_bin(INTERVAL '8 seconds', first, TIMESTAMP '1970-01-01T00:00:00') + INTERVAL '8 seconds', sum(n), max(n)
        FROM (SELECT key, window_start AS first, count(*) AS n FROM tumble_a GROUP BY key, window_start) GROUP BY s";
    hops_of_windows: "SELECT window_end, sum(n), count(*) FROM hop((SELECT key, window_end AS last, count(*) AS n
        FROM {tumble a} GROUP BY key, window_end), last, INTERVAL '2 seconds', INTERVAL '4 seconds') GROUP BY
        window_end"
        => "SELECT e, sum(n), count(*) FROM (SELECT n, date_bin(INTERVAL '2 seconds', last,
        TIMESTAMP '1970-01-01T00:00:00') + later AS e FROM (SELECT key, window_end AS last, count(*) AS n FROM tumble_a
        GROUP BY key, window_end) CROSS JOIN (VALUES (INTERVAL '2 seconds'), (INTERVAL '4 seconds')) AS l(later))
        GROUP BY e";
    sessions_of_windows: "SELECT window_start, window_end, sum(n) FROM session((SELECT key, window_end AS last,
        count(*) AS n FROM {tumble a} GROUP BY key, window_end), last, INTERVAL '1000 days')
        GROUP BY window_start, window_end"
        => "SELECT min(last), max(last) + INTERVAL '1000 days', sum(n) FROM (SELECT window_end AS last, count(*) AS n
        FROM tumble_a GROUP BY key, window_end) HAVING count(*) > 0";
    tumble_in_group_by: "SELECT tumble(at, {size}) AS start, key, count(*) FROM a GROUP BY tumble(at, {size}), key"
        => "SELECT window_start, key, count(*) FROM tumble_a GROUP BY window_start, key";
    lag_of_windows: "SELECT key, window_end, n, LAG(n) OVER (PARTITION BY key ORDER BY window_end) FROM (SELECT key,
        window_end, count(*) AS n FROM {tumble a} GROUP BY key, window_end)";
    rows_of_expressions: "SELECT id, value * 2 + 1, price / 3, coalesce(name, 'none'), CASE WHEN flag THEN 'yes' ELSE
        'no'
        END, at + {size}, date_trunc('second', at), key IS NULL FROM a WHERE value > 3 OR name LIKE 'a%'";
}

cases! { OneSource:
    elements: "SELECT id, unnest([value, id, value * 2]) AS v, name FROM a WHERE value > 3 OR flag";
    elements_of_lists_of_all_lengths: "SELECT id, unnest(range(0, key)) AS v FROM a";
    elements_with_empty_lists: "SELECT id, unnest_outer(range(0, key)) AS v FROM a";
    elements_of_two_lists: "SELECT unnest(range(0, key)) AS v, id, unnest([name, 'x']) AS w FROM a";
    windows_of_elements: "SELECT window_end, v, count(*) FROM tumble((SELECT at, unnest([key, value]) AS v FROM a), at,
        {size}) GROUP BY window_end, v"
        => "SELECT window_end, v, count(*) FROM (SELECT window_end, unnest([key, value]) AS v FROM tumble_a)
        GROUP BY window_end, v";
}

cases! { TwoSources:
    union_of_rows: "SELECT id, key, at FROM a WHERE flag UNION ALL SELECT id, value, at FROM b WHERE value > 10";
    windows_of_union: "SELECT window_end, key, count(*), sum(value) FROM tumble((SELECT key, value, at FROM a UNION ALL
        SELECT key, value, at FROM b), at, {size}) GROUP BY window_end, key"
        => "SELECT window_end, key, count(*), sum(value) FROM (SELECT window_end, key, value FROM tumble_a UNION ALL
        SELECT window_end, key, value FROM tumble_b) GROUP BY window_end, key";
    union_of_windows: "SELECT window_end, key, count(*) AS n FROM {tumble a} GROUP BY window_end, key UNION ALL
        SELECT window_end, value, sum(value) FROM {hop b} GROUP BY window_end, value";
    lag_of_union: "SELECT id, key, at, LAG(id) OVER (PARTITION BY key ORDER BY at) FROM (SELECT id * 2 AS id, key, at
        FROM a WHERE id % 2 = 0 UNION ALL SELECT id * 2 + 1, key, at FROM b WHERE id < 0)"
        => "SELECT id, key, at, LAG(id) OVER (PARTITION BY key ORDER BY at, id) FROM (SELECT id * 2 AS id, key, at
        FROM a WHERE id % 2 = 0)";
}
