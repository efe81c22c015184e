//! Statements as clients send them to read the catalogue, of which PostgreSQL says what their columns are called, and what their values are.

use crate::support::{connect, run, serve};
use tidemill_testing::postgres;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Statements whose columns are called as in PostgreSQL. Clients read values by these names.
const NAMED: [&str; 28] = [
    "SELECT count(*) FROM pg_catalog.pg_class",
    "SELECT 'pg_class'::regclass::oid",
    "SELECT relname::text, c.oid::int8 FROM pg_class c LIMIT 1",
    "SELECT pg_catalog.pg_get_viewdef(1, true), format_type(20, NULL)",
    "SELECT version(), current_database(), current_schema(), has_schema_privilege('public', 'USAGE')",
    "SELECT true, NULL::text, NULL::int FROM pg_namespace LIMIT 1",
    "SELECT 1 + 1, ''::text FROM pg_namespace LIMIT 1",
    "SELECT CASE WHEN relkind = 'r' THEN 'table' END FROM pg_class LIMIT 1",
    "SELECT CASE WHEN relkind = 'r' THEN 'table' ELSE relname END FROM pg_class LIMIT 1",
    "SELECT (SELECT nspname FROM pg_namespace n WHERE n.oid = c.relnamespace) FROM pg_class c LIMIT 1",
    "SELECT EXISTS (SELECT 1 FROM pg_class)",
    "SELECT ARRAY[1, 2], COALESCE(relname, 'x'), NULLIF(relname, 'x') FROM pg_class LIMIT 1",
    "SELECT extract(epoch FROM pg_postmaster_start_time()), substring(relname FROM 1 FOR 2) FROM pg_class LIMIT 1",
    "SELECT indkey[0], conkey[1] FROM pg_index, pg_constraint LIMIT 0",
    "SELECT count FROM (SELECT count(*) FROM pg_class) counted",
    "SELECT relname FROM pg_class UNION ALL SELECT nspname::text FROM pg_namespace LIMIT 1",
    "SELECT inet_server_port(), txid_current_snapshot()",
    "SELECT grantee FROM (SELECT (d).grantee FROM (SELECT aclexplode(relacl) AS d FROM pg_class) a) b",
    "SELECT k.grantee, array_agg(k.privilege_type) FROM pg_class c, aclexplode(c.relacl) k GROUP BY k.grantee",
    "SELECT DISTINCT ON (c.relname) c.relname AS name, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid) \
     FROM pg_class c WHERE c.relname = 'nothing' ORDER BY c.relname",
    "SELECT pid FROM pg_stat_activity sa WHERE (SELECT r.rolsuper OR r.oid = sa.usesysid FROM pg_roles r WHERE \
     r.rolname = 'nobody')",
    "SELECT substring(array_to_string(c.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS f FROM pg_class c LIMIT 1",
    "SELECT attname FROM pg_attribute WHERE attnum = ANY ((SELECT con.conkey FROM pg_constraint con WHERE con.oid = \
     0)::oid[])",
    "SELECT n.nspname, s.tps FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (SELECT \
     sum(pg_table_size(p.relid)) AS tps FROM pg_partition_tree(c.oid) p) s WHERE c.relkind IN ('p', 'I', '')",
    "WITH keys AS (SELECT conname, contype FROM pg_constraint WHERE contype = 'f') SELECT conname, contype FROM keys \
     UNION ALL SELECT relname, relkind FROM pg_class LIMIT 0",
    "SELECT pg_column_is_updatable(c.oid::regclass, 1::int2, false) FROM pg_class c LIMIT 1",
    "SELECT pg_opclass_is_visible(1), pg_ts_dict_is_visible(1), pg_get_function_sqlbody(1), pg_blocking_pids(1)",
    "SELECT t.typlen FROM pg_type t, pg_namespace n WHERE t.typnamespace = n.oid AND t.typname = 'name'",
];

/// Statements with the same values as in PostgreSQL.
const EQUAL: [&str; 16] = [
    "SELECT row_to_json(t) FROM (SELECT 1 AS a, 'x\"\ty' AS b, NULL::int AS n, true AS \"Flag\") t",
    "SELECT row_to_json(t) FROM (SELECT TIMESTAMP '2026-01-31 12:30:00.25' AS at, DATE '2026-01-31' AS d, \
        1.50::numeric(4,2) AS x) t",
    "SELECT row_to_json(t) FROM (SELECT ARRAY[1, NULL] AS l, ARRAY['a'] AS texts, 'é'::text AS e, -0.5::float8 AS f) t",
    "SELECT json_agg(v ORDER BY v) FILTER (WHERE v > 1) FROM (VALUES (1), (2)) AS rows(v)",
    "SELECT json_agg(v) FROM (SELECT 1 AS v WHERE false) AS rows",
    "SELECT json_agg(t) FROM (SELECT 1 AS a, 'x' AS b) AS t",
    "SELECT json_build_object('a', 1, 'b', 'x', 'c', ARRAY[1, 2], 'd', NULL)",
    "SELECT json_build_array(1, 'x', NULL, false), json_build_object()",
    "SELECT to_json('x'::text), to_json(NULL::int), to_json(1.5::float8), array_to_json(ARRAY[1, 2])",
    "SELECT pg_size_pretty(123456789::bigint), pg_size_pretty(20::bigint)",
    "SELECT typlen, typcategory FROM pg_catalog.pg_type WHERE typname = 'name'",
    "SELECT (SELECT count(*) FROM pg_class WHERE relname = (SELECT max(nspname) FROM pg_namespace WHERE oid = 11))",
    "SELECT ARRAY(SELECT generate_series(1, 3)) FROM pg_namespace WHERE nspname = 'public'",
    "SELECT name, abbrev, utc_offset::text, is_dst FROM pg_timezone_names WHERE name IN ('Asia/Kolkata', 'UTC', \
        'Asia/Tokyo') ORDER BY name",
    "SELECT count(*) > 300 FROM pg_timezone_names",
    "SELECT getdatabaseencoding(), pg_client_encoding()",
];

/// The names of the columns of a statement, and its rows.
type Answer = (Vec<String>, Vec<Vec<Option<String>>>);

async fn answer(client: &tokio_postgres::Client, statement: &str) -> Result<Answer, String> {
    let messages = client.simple_query(statement).await.map_err(|error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    })?;
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                names = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
            }
            _ => {}
        }
    }
    Ok((names, rows))
}

#[test]
fn a_real_postgresql_has_the_same_columns_and_values() {
    let Some(real) = postgres::Server::start() else { return };
    let server = serve();
    run(async {
        let client = connect(&server).await;
        let (other, connection) = tokio_postgres::connect(&real.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let mut wrong = Vec::new();
        let named = NAMED.iter().map(|statement| (statement, false));
        for (statement, has_values) in named.chain(EQUAL.iter().map(|statement| (statement, true))) {
            let expected =
                answer(&other, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
            let is_right = match answer(&client, statement).await {
                Ok((names, rows)) => {
                    let is_right = if has_values { rows == expected.1 } else { names == expected.0 };
                    if is_right { None } else { Some(format!("{names:?} {rows:?}")) }
                }
                Err(error) => Some(error),
            };
            wrong.extend(is_right.map(|found| format!("{statement}\n  {found}\n  not {expected:?}")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
