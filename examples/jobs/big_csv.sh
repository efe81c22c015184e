#!/usr/bin/env bash
# A large CSV in one query. `ROWS=20000000 bash big_csv.sh` makes it about 1 GB; by default it is small.
. "$(dirname "$0")/support.sh"
rows_written=${ROWS:-200000}

awk -v rows="$rows_written" 'BEGIN {
    print "id,shop,amount,note"
    for (id = 0; id < rows; id++) printf "%d,shop-%d,%d.%02d,\"a note, with a comma\"\n", id, id % 4, id % 100, id % 100
}' >orders.csv
cat >totals.sql <<'SQL'
CREATE SOURCE orders (id BIGINT, shop VARCHAR, amount DECIMAL(12, 2)) WITH (path = 'orders.csv');
CREATE MATERIALIZED VIEW totals AS SELECT shop, count(*) AS orders, sum(amount) AS total, max(id) AS last FROM orders GROUP BY shop;
SQL
tested totals.sql <<'CASE'
Cents are exact, and an amount that is no number is left out.

=== text orders
id,shop,amount,note
1,a,0.10,
2,a,0.20,
3,b,much,

=== expect totals
shop,orders,total,last
a,2,0.30,2

=== dead letters orders
record
"3,b,much,"
CASE
tidemill sql --format csv -c "SELECT shop, count(*) AS orders, sum(CAST(amount AS DECIMAL(12, 2))) AS total, max(id) AS last
    FROM 'orders.csv' GROUP BY shop" >totals.csv
# awk counts in a way of its own.
awk -v rows="$rows_written" 'BEGIN {
    for (id = 0; id < rows; id++) { orders[id % 4]++; cents[id % 4] += id % 100 * 101; last[id % 4] = id }
    for (shop in orders) printf "shop-%d,%d,%d.%02d,%d\n", shop, orders[shop], cents[shop] / 100, cents[shop] % 100, last[shop]
}' >expected
same totals.csv <expected
