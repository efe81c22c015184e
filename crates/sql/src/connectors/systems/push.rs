//! `connector = 'push'`: rows are put into the source by the program itself, or by `COPY ... FROM STDIN`. `connector = 'table'`: they are the
//! changes of a table.

use std::sync::Arc;

use tidemill_connect::memory::PushTarget;

use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::relations::projected::Projected;
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::OptionError;

/// A source that takes the rows that it is given.
pub(super) struct PushedRows;

impl SourceConnector for PushedRows {
    fn doc(&self) -> &str {
        "rows that clients of a server send: `COPY name FROM STDIN`"
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let columns = request.declared_columns("a source that is given its rows")?;
        let target = PushTarget::new(request.name, Arc::clone(&columns), request.is_durable);
        let opened = target.clone();
        let open: Arc<OpenSource> = Arc::new(move |columns| Projected::open(opened.open(), columns));
        Ok(DefinedSource { push: Some(target), ..DefinedSource::new(columns, open) })
    }
}

/// The source of a table's changes.
pub(super) struct TableChanges;

impl SourceConnector for TableChanges {
    fn doc(&self) -> &str {
        "the changes of a table that a client of a server has created: a transaction at a time"
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let columns = request.declared_columns("the source of a table")?;
        let target = PushTarget::transactional(request.name, Arc::clone(&columns), request.is_durable);
        let opened = target.clone();
        let open: Arc<OpenSource> = Arc::new(move |columns| Projected::open(opened.open(), columns));
        Ok(DefinedSource { push: Some(target), ..DefinedSource::new(columns, open) })
    }
}
