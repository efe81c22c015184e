#!/usr/bin/env bash
# Orders with the names of their customers, who are in a table of PostgreSQL that is read when the query starts. Then the same with
# a table that is read again every 0.2 s: an order after a change sees the new name.
. "$(dirname "$0")/support.sh"
postgres

psql -q "$url" <<'SQL'
CREATE TABLE customers (id BIGINT PRIMARY KEY, name TEXT, city TEXT);
INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Grace', NULL), (3, 'Edsger, W.', 'Nuenen');
SQL
printf 'order_id,customer,amount\n10,1,20\n11,3,5\n12,9,7\n13,2,1\n' >orders.csv
cat >named.sql <<SQL
CREATE TABLE customers WITH (connector = 'postgres', url = '$url', table = 'customers');
CREATE SOURCE orders (order_id BIGINT, customer BIGINT, amount BIGINT) WITH (path = 'orders.csv');
CREATE SINK named AS
    SELECT order_id, name, city, amount FROM orders LEFT JOIN customers ON customers.id = orders.customer
WITH (connector = 'postgres', url = '$url', table = 'named_orders');
SQL
tested named.sql <<'CASE'
An order of nobody is kept.

=== rows customers
id,name,city
1,Ada,London
=== rows orders
order_id,customer,amount
10,1,20
11,2,5

=== expect named
order_id,name,city,amount
10,Ada,London,20
11,,,5
CASE
tidemill run named.sql
{
    echo header
    psql "$url" -AtF '|' -c 'SELECT * FROM named_orders'
} >stored.csv
same stored.csv <<'ROWS'
10|Ada|London|20
11|Edsger, W.|Nuenen|5
12|||7
13|Grace||1
ROWS

cat >changing.sql <<SQL
CREATE SOURCE customer_changes (id BIGINT, name VARCHAR)
WITH (connector = 'postgres', url = '$url', query = 'SELECT id, name FROM customers', refresh = '0.2 s');
CREATE MATERIALIZED VIEW customers PRIMARY KEY (id) AS SELECT * FROM customer_changes;
CREATE SOURCE orders (order_id BIGINT, customer BIGINT) WITH (path = 'new_orders.csv', follow = true, header = true);
CREATE SINK named AS SELECT order_id, name FROM orders JOIN customers ON customers.id = orders.customer
WITH (path = 'named.csv');
SQL
echo order_id,customer >new_orders.csv
start changing.log tidemill run changing.sql
# An order finds its customer once the table has been read.
order=20
ordered() {
    order=$((order + 1))
    echo "$order,1" >>new_orders.csv
    sleep 0.2
    grep -q ",$1\$" named.csv
}
wait_until ordered Ada
psql -q "$url" -c "UPDATE customers SET name = 'Lovelace' WHERE id = 1"
wait_until ordered Lovelace
stop "$started"
