//! Windows by count: in batch, rows are numbered in the order of their arrival.

use crate::against_batch::cases;

cases! { OneSource:
    rows_of_windows_by_count: "SELECT id, window_start, window_end FROM tumble(TABLE(a), ROWS 4)"
        => "SELECT id, n / 4 * 4, n / 4 * 4 + 4 FROM numbered_a";
    windows_by_count: "SELECT window_start, window_end, count(*), sum(value), avg(price), count(DISTINCT name)
        FROM tumble(TABLE(a), ROWS 4) GROUP BY window_start, window_end"
        => "SELECT n / 4 * 4, n / 4 * 4 + 4, count(*), sum(value), avg(price), count(DISTINCT name) FROM numbered_a
        GROUP BY n / 4";
    windows_of_one_row: "SELECT window_end, sum(value) FROM tumble(TABLE(a), ROWS 1) GROUP BY window_end"
        => "SELECT n + 1, value FROM numbered_a";
    windows_by_count_of_keys: "SELECT key, window_start, count(*), min(id), max(value) FROM tumble(TABLE(a), ROWS 3,
        key => key) GROUP BY key, window_start"
        => "SELECT key, of_key / 3 * 3, count(*), min(id), max(value) FROM numbered_a GROUP BY key, of_key / 3";
    windows_by_count_of_two_keys: "SELECT key, name, flag, window_end, count(*) FROM tumble(TABLE(a), ROWS 2,
        key => (key, name)) GROUP BY key, name, flag, window_end"
        => "SELECT key, name, flag, of_two / 2 * 2 + 2, count(*) FROM numbered_a GROUP BY key, name, flag, of_two / 2";
    windows_by_count_by_more: "SELECT name, window_start, window_end, count(*), sum(value) FROM tumble(TABLE(a), ROWS 5)
        GROUP BY name, window_start, window_end HAVING count(*) > 1"
        => "SELECT name, n / 5 * 5, n / 5 * 5 + 5, count(*), sum(value) FROM numbered_a GROUP BY name, n / 5
        HAVING count(*) > 1";
    windows_by_count_of_filtered: "SELECT window_start, count(*) FROM tumble((SELECT * FROM a WHERE flag), ROWS 3)
        WHERE value > 5 GROUP BY window_start"
        => "SELECT s, count(*) FROM (SELECT value, CAST(ROW_NUMBER() OVER (ORDER BY id) - 1 AS BIGINT) / 3 * 3 AS s
        FROM a WHERE flag) WHERE value > 5 GROUP BY s";
    windows_by_count_in_order: "SELECT window_end, count(*), sum(id) FROM tumble(TABLE(a), at, ROWS 3)
        GROUP BY window_end"
        => "SELECT e, count(*), sum(id) FROM (SELECT id, CAST(ROW_NUMBER() OVER (ORDER BY at, id) - 1 AS BIGINT) / 3 * 3
        + 3 AS e FROM a) GROUP BY e";
    rows_of_sliding_windows: "SELECT id, window_start, window_end FROM hop(TABLE(a), ROWS 2, ROWS 5)"
        => "SELECT r.id, s.n, s.n + 5 FROM numbered_a s JOIN numbered_a r ON s.n % 2 = 0 AND r.n >= s.n AND r.n < s.n
        + 5";
    sliding_windows_by_count: "SELECT window_start, window_end, count(*), sum(value), max(name) FROM hop(TABLE(a),
        ROWS 2, ROWS 5) GROUP BY window_start, window_end"
        => "SELECT s.n, s.n + 5, count(*), sum(r.value), max(r.name) FROM numbered_a s JOIN numbered_a r ON s.n % 2 = 0
        AND r.n >= s.n AND r.n < s.n + 5 GROUP BY s.n";
    sliding_windows_by_each_row: "SELECT key, window_end, count(*), sum(value) FROM hop(TABLE(a), ROWS 1, ROWS 3,
        key => key) GROUP BY key, window_end"
        => "SELECT s.key, s.of_key + 3, count(*), sum(r.value) FROM numbered_a s JOIN numbered_a r ON (s.key IS NOT
        DISTINCT FROM r.key) AND r.of_key >= s.of_key AND r.of_key < s.of_key + 3 GROUP BY s.key, s.of_key";
    windows_by_count_in_order_of_keys: "SELECT key, window_end, count(*), sum(id) FROM hop((SELECT * FROM a WHERE flag),
        at, ROWS 1, ROWS 2, key => key) GROUP BY key, window_end"
        => "SELECT s.key, s.p + 2, count(*), sum(r.id) FROM (SELECT *, CAST(ROW_NUMBER() OVER (PARTITION BY key ORDER BY
        at, id) - 1 AS BIGINT) AS p FROM a WHERE flag) s JOIN (SELECT *, CAST(ROW_NUMBER() OVER (PARTITION BY key ORDER
        BY at, id) - 1 AS BIGINT) AS p FROM a WHERE flag) r ON (s.key IS NOT DISTINCT FROM r.key) AND r.p >= s.p AND
        r.p < s.p + 2 GROUP BY s.key, s.p";
}
