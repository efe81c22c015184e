//! Text in both dialects at once.

/// What is the same question to both sides.
#[derive(Clone, Debug)]
pub struct Sql {
    pub ours: String,
    pub duckdb: String,
}

impl Sql {
    /// The same for both.
    pub fn same(text: impl Into<String>) -> Sql {
        let text = text.into();
        Sql { ours: text.clone(), duckdb: text }
    }

    /// All of them, with something between.
    pub fn joined(all: &[Sql], between: &str) -> Sql {
        let join = |side: fn(&Sql) -> &str| all.iter().map(side).collect::<Vec<_>>().join(between);
        Sql { ours: join(|sql| &sql.ours), duckdb: join(|sql| &sql.duckdb) }
    }
}

/// A template with texts in the places of its `{}`, as `format!` does it, for both dialects.
macro_rules! sql {
    ($template:literal $(, $argument:expr)* $(,)?) => {
        $crate::against_duckdb::sql::filled($template, &[$($argument),*])
    };
}
pub(crate) use sql;

pub fn filled(template: &str, arguments: &[Sql]) -> Sql {
    both(|ours| {
        let mut text = String::new();
        let mut arguments = arguments.iter();
        for (index, part) in template.split("{}").enumerate() {
            if index > 0 {
                text.push_str(side(arguments.next().expect("each place has an argument"), ours));
            }
            text.push_str(part);
        }
        assert!(arguments.next().is_none(), "{template} has fewer places");
        text
    })
}

pub fn both(text: impl Fn(bool) -> String) -> Sql {
    Sql { ours: text(true), duckdb: text(false) }
}

pub fn side(sql: &Sql, ours: bool) -> &str {
    if ours { &sql.ours } else { &sql.duckdb }
}
