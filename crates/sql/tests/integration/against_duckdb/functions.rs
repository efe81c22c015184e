//! Functions that are defined in SQL, beside DuckDB's macros. Parameters of functions of values have the names of columns.

use super::expression::Expressions;
use super::query::{Query, filter};
use super::sql::{Sql, both, side, sql};
use super::table::{COLUMNS, Column, Type};
use tidemill_testing::random::Random;

/// Stands before the name of a column of whose type a parameter is.
const PARAMETER: &str = "param_";

pub fn functions(random: &mut Random) -> Query {
    match random.index(3) {
        0 => rows(random),
        _ => values(random),
    }
}

/// A function in both dialects.
struct Function {
    name: &'static str,
    /// The columns of whose types its parameters are.
    parameters: Vec<&'static Column>,
    definition: Sql,
}

/// The columns whose parameters a body names.
fn parameters(body: &Sql) -> Vec<&'static Column> {
    let is_named = |column: &&Column| {
        let name = format!("{PARAMETER}{}", column.name);
        let is_whole = |text: &str| {
            text.match_indices(&name).any(|(at, _)| {
                let next = text[at + name.len()..].chars().next();
                next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != '_')
            })
        };
        is_whole(&body.ours) || is_whole(&body.duckdb)
    };
    COLUMNS.iter().filter(is_named).collect()
}

/// The body with other names of parameters; longer names first, because `d` is the beginning of `day`.
fn renamed(body: &Sql, parameters: &[&Column], name: impl Fn(&Column) -> String) -> Sql {
    let mut longest_first = parameters.to_vec();
    longest_first.sort_by_key(|column| std::cmp::Reverse(column.name.len()));
    both(|ours| {
        longest_first.iter().fold(side(body, ours).to_owned(), |text, column| {
            text.replace(&format!("{PARAMETER}{}", column.name), &name(column))
        })
    })
}

/// An expression of a type that both sides can name.
fn typed(of: &mut Expressions<'_>) -> (Sql, Type) {
    match of.random.index(6) {
        0 => (of.text(2), Type::Text),
        1 => (of.timestamp(2), Type::Timestamp),
        2 => (of.day(2), Type::Date),
        3 => (of.condition(2), Type::Boolean),
        _ => (of.whole(2), Type::BigInt),
    }
}

fn type_name(data_type: Type) -> Sql {
    both(|ours| if ours { data_type.name() } else { data_type.duck_name() })
}

/// A function of values. The name of each parameter is that of a column of another type, mostly.
fn of_values(name: &'static str, body: &Sql, result: Type, shift: usize) -> Function {
    let parameters = parameters(body);
    let named = |column: &Column| {
        let index = COLUMNS.iter().position(|other| other.name == column.name).expect("it is one");
        COLUMNS[(index + shift) % COLUMNS.len()].name.to_owned()
    };
    let body = renamed(body, &parameters, named);
    let declared = both(|ours| {
        let declared = parameters.iter().map(|column| {
            if ours { format!("{} {}", named(column), column.data_type.name()) } else { named(column) }
        });
        declared.collect::<Vec<_>>().join(", ")
    });
    let result = type_name(result);
    let definition = Sql {
        ours: format!(
            "CREATE FUNCTION {name}({}) RETURNS {} AS $$ {} $$;\n",
            declared.ours, result.ours, body.ours
        ),
        duckdb: format!(
            "CREATE OR REPLACE MACRO {name}({}) AS CAST(({}) AS {});\n",
            declared.duckdb, body.duckdb, result.duckdb
        ),
    };
    Function { name, parameters, definition }
}

impl Function {
    /// A call with columns, or whatever stands for them, of the right types.
    fn call(&self, of: &mut Expressions<'_>) -> Sql {
        let arguments = self.parameters.iter().map(|parameter| {
            // What is computed of the others ends where the values of their column end.
            let takes_all = ["i32", "d", "ts"].contains(&parameter.name);
            let is_alike = |column: &&Column| {
                if takes_all {
                    column.data_type == parameter.data_type
                } else {
                    column.name == parameter.name
                }
            };
            let alike: Vec<&str> = COLUMNS.iter().filter(is_alike).map(|column| column.name).collect();
            let value = match (of.random.index(5), parameter.name) {
                (0, _) => Sql::same("NULL"),
                (1, "i64") => of.whole(1),
                (1, "s") => of.text(1),
                _ => of.column(&alike),
            };
            sql!("CAST({} AS {})", value, type_name(parameter.data_type))
        });
        let arguments: Vec<Sql> = arguments.collect();
        sql!("{}({})", Sql::same(self.name), Sql::joined(&arguments, ", "))
    }
}

/// Two functions of values, the second of which calls the first.
fn values(random: &mut Random) -> Query {
    let shift = random.index(COLUMNS.len());
    let (body, result) = typed(&mut Expressions { random, qualifiers: &[PARAMETER] });
    let inner = of_values("inner_value", &body, result, shift);
    let mut of_parameters = Expressions { random, qualifiers: &[PARAMETER] };
    let called = inner.call(&mut of_parameters);
    let body = match of_parameters.random.index(2) {
        0 => called,
        _ => sql!("CASE WHEN {} THEN {} END", of_parameters.condition(1), called),
    };
    let outer = of_values("outer_value", &body, result, shift + 3);
    let mut of_t = Expressions { random, qualifiers: &["", "t."] };
    let (one, other) = (inner.call(&mut of_t), outer.call(&mut of_t));
    let filter = filter(&mut of_t);
    let query = match of_t.random.index(3) {
        0 => sql!(
            "SELECT {} AS g0, count(*) AS n, max({}) AS m FROM t{} GROUP BY {}",
            one.clone(),
            other,
            filter,
            one
        ),
        1 => sql!("SELECT id, {} AS c0 FROM t WHERE {} IS NOT NULL", other, one),
        _ => sql!("SELECT id, {} AS c0, {} AS c1 FROM t{}", one, other, filter),
    };
    with([&inner, &outer], query)
}

fn with<const N: usize>(functions: [&Function; N], query: Sql) -> Query {
    let definitions: String = functions.iter().map(|function| function.definition.ours.as_str()).collect();
    let macros: String = functions.iter().map(|function| function.definition.duckdb.as_str()).collect();
    let sql = Sql { ours: query.ours, duckdb: format!("{macros}{}", query.duckdb) };
    Query { definitions, sql, ordered: false }
}

/// Some value of a type.
fn constant(data_type: Type, random: &mut Random) -> &'static str {
    random.one_of(match data_type {
        Type::Boolean => &["TRUE", "FALSE", "NULL"],
        Type::Text => &["'a'", "'ä'", "''", "'12'", "'it''s'", "NULL"],
        Type::Timestamp => &["'2024-02-29 12:34:56.789'", "'1970-01-01 00:00:00'", "NULL"],
        Type::Date => &["'2024-02-29'", "'1969-12-31'", "NULL"],
        Type::Time => &["'12:34:56'", "'00:00:00'", "NULL"],
        Type::Double | Type::Real | Type::Decimal(..) => &["0.5", "-1.5", "2", "0", "NULL"],
        Type::Unsigned => &["0", "3", "200", "NULL"],
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => &["0", "1", "-1", "7", "100", "NULL"],
    })
}

/// A function of rows over `t`.
fn rows(random: &mut Random) -> Query {
    let mut of_both = Expressions { random, qualifiers: &["t.", "t.", PARAMETER] };
    let (value, result) = typed(&mut of_both);
    let condition = of_both.condition(2);
    let body = match of_both.random.index(3) {
        0 => {
            sql!("SELECT count(*) AS n, {} AS v FROM t WHERE {} GROUP BY {}", value.clone(), condition, value)
        }
        _ => sql!("SELECT t.id AS n, {} AS v FROM t WHERE {}", value, condition),
    };
    let parameters = parameters(&body);
    // Which hides which, a parameter or a column, is not the question here.
    let named = |column: &Column| format!("given_{}", column.name);
    let body = renamed(&body, &parameters, named);
    let declared = parameters.iter().map(|column| format!("{} {}", named(column), column.data_type.name()));
    let ours = format!(
        "CREATE FUNCTION found({}) RETURNS TABLE (n BIGINT, v {}) AS $$ {} $$;\n",
        declared.collect::<Vec<_>>().join(", "),
        result.name(),
        body.ours
    );
    let names: Vec<String> = parameters.iter().map(|column| named(column)).collect();
    let duckdb = format!("CREATE OR REPLACE MACRO found({}) AS TABLE {};\n", names.join(", "), body.duckdb);
    let arguments: Vec<Sql> = parameters
        .iter()
        .map(|column| {
            let value = Sql::same(constant(column.data_type, random));
            sql!("CAST({} AS {})", value, type_name(column.data_type))
        })
        .collect();
    let call = sql!("found({})", Sql::joined(&arguments, ", "));
    let query = match random.index(4) {
        0 => sql!("WITH u AS (SELECT 1 AS id) SELECT n, v FROM {}", call),
        1 => sql!("SELECT v, count(*) AS c, max(n) AS m FROM {} GROUP BY v", call),
        2 => sql!("SELECT a.n FROM {} AS a WHERE a.v IS NOT NULL", call),
        _ => sql!("SELECT * FROM {}", call),
    };
    with([&Function { name: "found", parameters, definition: Sql { ours, duckdb } }], query)
}
