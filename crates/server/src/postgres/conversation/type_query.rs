//! The question of asyncpg which types are lists of which others.
//!
//! It asks before it reads the first list, over PostgreSQL's catalogue, with recursion, subqueries and `any` of a list. Its text is
//! recognised, and a query of the language answers it, with all lists that there are.

use tidemill_sql::ParameterType;

/// How the question begins, in all versions of asyncpg.
const BEGINNING: &str = "WITH RECURSIVE typeinfo_tree(";

const ANSWER: &str = "SELECT oid, 'pg_catalog' AS ns, typname AS name, 'b' AS kind, CAST(NULL AS BIGINT) AS basetype,
    typelem AS elemtype, ',' AS elemdelim, CAST(NULL AS BIGINT) AS range_subtype, CAST(NULL AS VARCHAR) AS attrtypoids,
    CAST(NULL AS VARCHAR) AS attrnames, 0 AS depth, CAST(NULL AS VARCHAR) AS basetype_name,
    CAST(NULL AS VARCHAR) AS elemtype_name, CAST(NULL AS VARCHAR) AS range_subtype_name
FROM (SELECT oid, typname, typelem FROM pg_catalog.pg_type UNION ALL SELECT 22, 'int2vector', 21) AS types
WHERE typelem <> 0 AND $1 IS NOT NULL";

/// Its parameter is a list of type numbers, which the answer need not read.
pub(super) const PARAMETER: ParameterType = ParameterType::Bytes;
/// What the client sends it as: `oid[]`.
pub(super) const PARAMETER_OID: u32 = 1028;

/// The query that answers a text, if the text is the question.
pub(super) fn answering(text: &str) -> Option<&'static str> {
    text.trim_start().starts_with(BEGINNING).then_some(ANSWER)
}
