#!/usr/bin/env bash
# Two pipelines on one source: each is a process of its own, reads the file at its own pace, and can be stopped alone.
. "$(dirname "$0")/support.sh"

printf 'id,amount\n1,20\n2,5\n' >orders.csv
pipeline() {
    cat <<SQL
CREATE SOURCE orders (id BIGINT, amount BIGINT) WITH (path = 'orders.csv', follow = true);
CREATE SINK $1 AS SELECT id FROM orders WHERE amount $2 10 WITH (path = '$1.csv');
SQL
}
pipeline large '>' >large.sql
pipeline small '<=' >small.sql
start large.log tidemill run large.sql
large=$started
start small.log tidemill run small.sql
small=$started
wait_until rows large.csv 1
wait_until rows small.csv 1
stop "$small"
printf '3,30\n4,1\n' >>orders.csv
wait_until rows large.csv 2
stop "$large"
same large.csv <<<$'1\n3'
same small.csv <<<'2'
