#!/usr/bin/env bash
# Two pipelines on one source: the first takes the rows in and has them in its journal, the second follows that journal. Each is a
# process of its own, at its own pace, and can be stopped or killed alone.
. "$(dirname "$0")/support.sh"

printf 'id,amount\n1,20\n2,5\n' >orders.csv
cat >large.sql <<'SQL'
SET journal = 'orders.journal';
CREATE SOURCE orders (id BIGINT, amount BIGINT)
WITH (path = 'orders.csv', follow = true, durable = true, retain = '1 GB');
CREATE SINK large AS SELECT id FROM orders WHERE amount > 10 WITH (path = 'large.csv');
SQL
cat >small.sql <<'SQL'
SET journal = 'small.journal';
CREATE SOURCE orders (id BIGINT, amount BIGINT)
WITH (connector = 'journal', path = 'orders.journal', follow = true, durable = true);
CREATE SINK small AS SELECT id FROM orders WHERE amount <= 10 WITH (path = 'small.csv');
SQL
for script in large small; do
    tested $script.sql <<CASE
=== rows orders
id,amount
1,10
2,11

=== expect $script
id
$([ $script = large ] && echo 2 || echo 1)
CASE
done
# The second may be there first: it waits for the journal.
start small.log tidemill run small.sql
small=$started
start large.log tidemill run large.sql
large=$started
wait_until rows large.csv 1
wait_until rows small.csv 1

# While one is away, the other continues.
kill -KILL "$small"
wait "$small" || true
printf '3,30\n4,1\n' >>orders.csv
wait_until rows large.csv 2
same small.csv <<<'2'

# It comes back and has missed nothing, also if nobody takes in any more.
stop "$large"
start again.log tidemill run small.sql
small=$started
wait_until rows small.csv 2
stop "$small"
same large.csv <<<$'1\n3'
same small.csv <<<$'2\n4'
