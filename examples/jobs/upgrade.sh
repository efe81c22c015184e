#!/usr/bin/env bash
# A durable pipeline is stopped, goes on where it was, and is changed: the journal still has what was taken in, so the changed
# query is computed over all of it, and takes the place of the old one.
. "$(dirname "$0")/support.sh"

pipeline() {
    cat <<SQL
SET journal = 'journal';
CREATE SOURCE orders (id BIGINT, amount BIGINT) WITH (path = 'orders.csv', header = true, follow = true, durable = true);
CREATE SINK large AS SELECT $1 FROM orders WHERE amount > 10 WITH (path = '$2');
SQL
}
printf 'id,amount\n1,20\n2,5\n3,30\n' >orders.csv
pipeline id large.csv >first.sql
tested first.sql <<'CASE'
10 is not large.

=== rows orders
id,amount
1,10
2,11

=== expect large
id
2
CASE
start first.log tidemill run first.sql
query=$started
wait_until rows large.csv 2
stop "$query"

# While it is away, a row comes. The same script goes on behind the last row.
printf '4,40\n' >>orders.csv
start again.log tidemill run first.sql
query=$started
wait_until rows large.csv 3
stop "$query"
same large.csv <<<$'1\n3\n4'

# Another query on this journal would give rows that do not fit those written before, so it is refused.
pipeline 'id, amount * 2 AS twice' doubled.csv >second.sql
if tidemill run second.sql 2>refused.log; then
    echo "the changed query ran on the journal of the old one" >&2
    exit 1
fi
grep -q 'belongs to a different query' refused.log
# But it can be computed once from the beginning, beside the old one's rows. (The refused run has made its own file already.)
pipeline 'id, amount * 2 AS twice' replayed.csv >third.sql
tidemill journal replay journal third.sql
same replayed.csv <<<$'1,40\n3,60\n4,80'

# Or it replaces the old one: it is computed from the journal, and goes on with what comes.
start replacing.log tidemill run second.sql --replace
query=$started
wait_until grep -q 'has caught up and taken over' replacing.log
printf '5,50\n' >>orders.csv
wait_until rows doubled.csv 4
stop "$query"
same doubled.csv <<<$'1,40\n3,60\n4,80\n5,100'
same large.csv <<<$'1\n3\n4'
