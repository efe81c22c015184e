//! The statements of the language: parsed from text, with places.
//!
//! Each statement has its file. Nothing here is checked against the catalogue, which is the planner's task.

mod as_of;
mod calls;
mod change;
mod clauses;
mod client;
mod ddl;
pub(crate) mod declared;
mod depth;
mod describe;
pub(crate) mod explain;
mod expression_text;
mod insert;
mod name;
mod options;
mod parameters;
mod parser;
mod parts;
mod piece;
mod query;
mod read;
mod rewrites;
mod set;
mod show;
mod subscribe;
mod written_numbers;

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::Spanned;

pub use self::as_of::AsOf;
pub(crate) use self::calls::{TABLE_FUNCTIONS, called, calls_in, normal};
pub use self::change::{
    AFFECTED, Assigned, ChangeKind, Conflict, Merged, MergedAction, ROW, TARGET, TableChange, TableShape,
};
pub(crate) use self::clauses::not_given;
pub(crate) use self::client::columns::derived_name;
pub use self::client::setting_calls::SettingCall;
pub use self::ddl::add_columns::{AddColumns, AddedColumn, ColumnPlace};
pub(crate) use self::ddl::add_columns::{additions, text_with_columns};
pub use self::ddl::alter::{Alter, AlterChange};
pub(crate) use self::ddl::altered::altered;
pub(crate) use self::ddl::columns::text_length;
pub use self::ddl::columns::{Column, Columns, Watermark};
pub use self::ddl::create_function::{CreateFunction, FunctionBody, FunctionResult, InputRows};
pub use self::ddl::create_places::{CreatePlaces, PlaceName};
pub use self::ddl::create_pool::CreatePool;
pub use self::ddl::create_process::{CreateProcess, ParameterSet, PlaceStep};
pub use self::ddl::create_sink::{CreateSink, SinkInput};
pub use self::ddl::create_source::CreateSource;
pub use self::ddl::create_view::{CreateMaterializedView, CreateView};
pub use self::ddl::function_code::{Code, FunctionCode};
pub use self::ddl::stop_start::QueryOf;
pub use self::ddl::typed_name::TypedName;
pub(crate) use self::depth::MAX_DEPTH;
pub(crate) use self::expression_text::expression_of;
pub use self::name::Name;
pub(crate) use self::name::in_other_letters;
pub(crate) use self::options::did_you_mean;
pub(crate) use self::options::secrets::Secrets;
pub use self::options::value::OptionValue;
pub use self::options::{OptionEntry, Options};
pub(crate) use self::parameters::compared_lists::compared_lists;
pub use self::parameters::{Parameter, ParameterType};
pub(crate) use self::parameters::{kind_of, number};
pub(crate) use self::parser::foreign::translated;
pub use self::parser::keywords::{is_reserved, keywords};
pub(crate) use self::parser::nesting::MAX_TYPES;
pub(crate) use self::parser::system_time;
pub use self::parser::tokens::is_complete;
pub use self::piece::{Piece, divide};
pub use self::rewrites::list_text::{list_items, list_text};
pub(crate) use self::rewrites::type_names::meant_type;
pub use self::show::ShowKind;
use crate::text::{Script, Span, TextError};

/// The most errors that are reported for one script.
const MAX_ERRORS: usize = 50;

/// One statement of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Where it is, without its `;`.
    pub span: Span,
    /// Its text, without its `;`.
    pub text: String,
    script: Arc<Script>,
}

/// The effect of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `CREATE SOURCE`: a stream.
    CreateSource(CreateSource),
    /// `CREATE TABLE`: a dimension table, read once and completely at the start.
    CreateTable(CreateSource),
    /// `CREATE FUNCTION`: a named expression, query or piece of code with parameters.
    CreateFunction(Box<CreateFunction>),
    /// `CREATE VIEW`: a named query.
    CreateView(CreateView),
    /// `CREATE MATERIALIZED VIEW`: a view whose rows are kept in memory and can be read.
    CreateMaterializedView(CreateMaterializedView),
    /// `CREATE PROCESS`: a query with a name and a place, or a set of them.
    CreateProcess(CreateProcess),
    /// `CREATE PLACES`: a named group of places.
    CreatePlaces(CreatePlaces),
    /// `CREATE POOL`: threads with a policy, cores and a budget.
    CreatePool(CreatePool),
    /// `CREATE SINK`: a target for rows.
    CreateSink(CreateSink),
    /// `INSERT INTO sink SELECT ...`.
    InsertInto {
        /// The sink.
        sink: Name,
        /// What it receives.
        query: Box<ast::Query>,
        /// `WITH (...)` at the end.
        options: Options,
    },
    /// A query whose rows are shown.
    Query(Box<ast::Query>, Options),
    /// `SET name = value`.
    Set {
        /// The setting.
        name: Name,
        /// The single entry `name`, so that its value is read like that of an option.
        value: Options,
    },
    /// `SHOW SOURCES` and the like.
    Show(ShowKind),
    /// `DESCRIBE name`: the columns of a source, table, view, sink or file.
    Describe(Name),
    /// `SUBSCRIBE TO name`: the rows of a materialized view that runs, and then its changes as they come.
    Subscribe(Name),
    /// `STOP`: the query of a sink or materialized view that runs.
    Stop(QueryOf),
    /// `START`: the query of a sink or materialized view that was stopped.
    Start(QueryOf),
    /// `ALTER`: options of a sink or materialized view.
    Alter(Alter),
    /// `ALTER SOURCE ... ADD COLUMN`.
    AddColumns(AddColumns),
    /// `DROP ...`.
    Drop {
        /// The kind of thing to drop.
        kind: RelationKind,
        /// Its name.
        name: Name,
        /// It is not an error if it does not exist.
        if_exists: bool,
        /// Whether what reads it is dropped, too (`CASCADE`).
        cascade: bool,
    },
    /// `EXPLAIN name`: the plan of a sink or view that is defined; if it runs, with what it has done.
    ExplainOutput(Name),
    /// `EXPLAIN WHY`: the rows of the sources that make the answer of a query.
    ExplainWhy(Box<Statement>),
    /// `EXPLAIN`: the plan that would run.
    Explain {
        /// Whether to run it too, and report measurements.
        analyze: bool,
        /// Whether the plan is written as JSON.
        is_json: bool,
        /// A query, `INSERT INTO`, `CREATE VIEW`, `CREATE MATERIALIZED VIEW` or `CREATE SINK`.
        statement: Box<Statement>,
    },
}

/// The kinds of things that have a name in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelationKind {
    /// A stream from outside.
    Source,
    /// A dimension table.
    Table,
    /// A named query.
    View,
    /// A named query whose rows are kept.
    MaterializedView,
    /// A query with a name and a place.
    Process,
    /// A named group of places.
    Places,
    /// Threads in which queries run.
    Pool,
    /// A target for rows.
    Sink,
    /// A function that is defined in SQL.
    Function,
}

impl StatementKind {
    /// Whether it is a plan that is to be written as JSON.
    #[must_use]
    pub fn is_explained_in_json(&self) -> bool {
        matches!(self, StatementKind::Explain { is_json: true, .. })
    }

    /// Whether it changes the catalogue, or what of it runs.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        match self {
            StatementKind::CreateSource(_)
            | StatementKind::CreateTable(_)
            | StatementKind::CreateView(_)
            | StatementKind::CreateMaterializedView(_)
            | StatementKind::CreateProcess(_)
            | StatementKind::CreatePlaces(_)
            | StatementKind::CreatePool(_)
            | StatementKind::CreateFunction(_)
            | StatementKind::CreateSink(_)
            | StatementKind::InsertInto { .. }
            | StatementKind::Stop(_)
            | StatementKind::Start(_)
            | StatementKind::Alter(_)
            | StatementKind::AddColumns(_)
            | StatementKind::Drop { .. } => true,
            StatementKind::Query(..)
            | StatementKind::Set { .. }
            | StatementKind::Show(_)
            | StatementKind::Describe(_)
            | StatementKind::Subscribe(_)
            | StatementKind::ExplainOutput(_)
            | StatementKind::ExplainWhy(_)
            | StatementKind::Explain { .. } => false,
        }
    }
}

impl RelationKind {
    /// The keyword, in capitals.
    #[must_use]
    pub fn keyword(self) -> &'static str {
        match self {
            RelationKind::Source => "SOURCE",
            RelationKind::Table => "TABLE",
            RelationKind::View => "VIEW",
            RelationKind::MaterializedView => "MATERIALIZED VIEW",
            RelationKind::Process => "PROCESS",
            RelationKind::Places => "PLACES",
            RelationKind::Pool => "POOL",
            RelationKind::Sink => "SINK",
            RelationKind::Function => "FUNCTION",
        }
    }
}

impl Statement {
    /// The script that it belongs to.
    #[must_use]
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// The relations and functions that it names if it is a query: the last part of each name, in small letters.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        client::query::names(&self.kind)
    }

    /// Returns the names that could be those of relations which it reads if it is a query.
    ///
    /// ```
    /// let query = tidemill_sql::parse("SELECT n FROM totals", "example").unwrap().remove(0);
    /// assert!(query.possible_relations().contains(&"totals".to_owned()));
    /// ```
    pub fn possible_relations(&self) -> Vec<String> {
        client::query::possible_relations(&self.kind)
    }

    /// The names of the functions that it calls, once for each call.
    pub(crate) fn calls(&self) -> Vec<String> {
        calls::in_statement(self)
    }

    /// An error at a piece of the script.
    #[must_use]
    pub fn error(&self, span: Span, message: impl Into<String>) -> TextError {
        TextError::new(&self.script, span, message)
    }

    /// Where a name first occurs in the statement, ignoring case if it is not quoted there.
    #[must_use]
    pub fn find_name(&self, name: &str) -> Option<Span> {
        parser::tokens::find_name(&self.script, self.span, name)
    }

    /// Where these words first occur consecutively, unquoted.
    #[must_use]
    pub fn find_words(&self, words: &[&str]) -> Option<Span> {
        parser::tokens::find_words(&self.script, self.span, words)
    }

    /// The place of a part of the parsed tree; the whole statement if the parser does not know.
    #[must_use]
    pub fn span_of(&self, node: &impl Spanned) -> Span {
        self.script.span_of_tokens(node.span()).unwrap_or(self.span)
    }
}

/// Reads all statements of a script, separated by `;`. `file` is its name in messages.
///
/// # Errors
/// At the first place that cannot be read, or if the script is longer than [`MAX_SCRIPT_BYTES`]. [`parse_all`] reports
/// all errors.
///
/// ```
/// let statements = tidemill_sql::parse("SELECT a FROM 'a.csv'; SHOW SOURCES", "a.sql").unwrap();
/// assert_eq!(statements.len(), 2);
/// assert_eq!(statements[1].span.start.column, 24);
/// ```
pub fn parse(text: &str, file: &str) -> Result<Vec<Statement>, TextError> {
    let (statements, errors) = parse_all(text, file);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(statements),
    }
}

/// Reads all readable statements of a script, and reports the errors of the others: at most one for each statement, in
/// the order of the script, and at most 50.
#[must_use]
pub fn parse_all(text: &str, file: &str) -> (Vec<Statement>, Vec<TextError>) {
    let script = match Script::new(text, file) {
        Ok(script) => script,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let (pieces, unreadable) = parser::tokens::divide(&script);
    let mut statements = Vec::new();
    let mut errors = Vec::new();
    for piece in pieces {
        match piece.and_then(|tokens| read::statement(&script, tokens)) {
            Ok(statement) => statements.push(statement),
            Err(error) if errors.len() < MAX_ERRORS => errors.push(error),
            Err(_) => break,
        }
    }
    errors.extend(unreadable);
    errors.truncate(MAX_ERRORS);
    (statements, errors)
}
