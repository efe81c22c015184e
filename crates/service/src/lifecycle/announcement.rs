//! Definitions that run at once: which query one announces, and whether it counts.

use tidemill_sql::{Catalog, Settings, StatementKind};

use crate::Runtime;
use crate::catalog::record::StartedQuery;

/// The query of a definition that is started as soon as it is defined, with these settings, unless one of its name is known.
pub(crate) fn announced(
    kind: &StatementKind,
    runtime: &Runtime,
    settings: &Settings,
    is_strict: bool,
) -> Option<StartedQuery> {
    let name = match kind {
        StatementKind::CreateMaterializedView(view) => view.name.as_str(),
        StatementKind::CreateSink(sink) if sink.input.is_some() => sink.name.as_str(),
        _ => return None,
    };
    if runtime.state(name).is_ok() {
        return None;
    }
    let mut settings = settings.clone();
    settings.journal = runtime.query_folder(name).or(settings.journal);
    Some(StartedQuery {
        name: name.to_owned(),
        outputs: vec![name.to_owned()],
        settings: settings.encode_beside(runtime.defaults()),
        is_strict,
    })
}

/// Whether a definition leaves the view or sink of its name as it is.
pub(crate) fn stays(kind: &StatementKind, catalog: &Catalog) -> bool {
    match kind {
        StatementKind::CreateMaterializedView(view) => {
            view.if_not_exists && catalog.has_output(view.name.as_str())
        }
        StatementKind::CreateSink(sink) => sink.if_not_exists && catalog.has_output(sink.name.as_str()),
        _ => false,
    }
}
