//! Prepared statements and portals.

use tidemill_sql::ParameterType;

use super::answer::Rows;
use super::wanted::Wanted;
use crate::values::Column;

/// A statement that was read once, to be executed any number of times. `None`: an empty text.
pub(super) struct PreparedStatement {
    pub wanted: Option<Wanted>,
    pub parameters: Vec<ParameterType>,
    /// The numbers of their types: those that the client has given, which it wants to hear again.
    pub oids: Vec<u32>,
}

/// A prepared statement with its values.
pub(super) struct Portal {
    pub wanted: Option<Wanted>,
    /// Of the results.
    pub formats: Vec<u16>,
    /// As the client was told.
    pub columns: Option<Vec<Column>>,
    pub progress: Progress,
}

/// How far a portal is.
pub(super) enum Progress {
    NotStarted,
    Rows(Box<Rows>),
    Done,
}
