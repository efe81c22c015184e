//! Files named in queries: `FROM 'clicks.csv'`.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_engine::{Cause, Source};

use crate::definition::SourceDefinition;

/// The definition of a file, pattern or directory of that name; `None` if the name does not look like one.
pub(crate) fn by_path(name: &str) -> Option<Result<SourceDefinition>> {
    let looks_like_path = name.contains('/') || name.contains('*') || Format::of_path(name).is_some();
    if !looks_like_path && !Path::new(name).exists() {
        return None;
    }
    Some(define(name).map_err(|cause| DataFusionError::Plan(cause.to_string())))
}

fn define(path: &str) -> std::result::Result<SourceDefinition, Cause> {
    let mut settings = FileSettings::new(path);
    let schema = FileSource::infer(&mut settings)?;
    settings.schema = Some(Arc::clone(&schema));
    let open = Arc::new(move |columns: Option<&[usize]>| open(settings.clone(), columns));
    let definition = SourceDefinition::new(path, schema, open);
    Ok(SourceDefinition { is_finite: true, is_repeatable: true, ..definition })
}

/// Opens files with some of their columns.
pub(super) fn open(
    settings: FileSettings,
    columns: Option<&[usize]>,
) -> std::result::Result<Box<dyn Source>, Cause> {
    let mut source = FileSource::open(settings)?;
    if let Some(columns) = columns {
        source.set_projection(columns)?;
    }
    Ok(Box::new(source))
}
