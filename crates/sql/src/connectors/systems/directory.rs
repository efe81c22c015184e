//! `connector = 'directory'`: rows to the files of a folder.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_connect::file::{DirectorySink, DirectorySinkSettings};

use super::dead_letters::{DEAD_LETTERS, sifted_if_text};
use super::fetched::refuse_remote;
use super::file::FILE_FORMATS;
use super::sync::{OVERWRITE, SYNC, sync};
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

pub(super) struct Directory;

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the folder"),
    OVERWRITE,
    SYNC,
    OptionDefinition::new(
        "rows_max",
        OptionKind::Integer { least: 1, most: i64::MAX },
        OptionDefault::Value("1000000"),
        "the number of rows after which a file is complete; 1: one file per commit",
    ),
    OptionDefinition::new(
        "bytes_max",
        OptionKind::Bytes,
        OptionDefault::Value("128 MB"),
        "the size at which a file is complete",
    ),
    OptionDefinition::new(
        "age_max",
        OptionKind::Duration,
        OptionDefault::Value("1 minute"),
        "the time after which a file is complete",
    ),
    DEAD_LETTERS,
];

impl SinkConnector for Directory {
    fn doc(&self) -> &str {
        "files in a folder, each complete under its name"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn formats(&self) -> Formats {
        Formats { default: OptionDefault::Required, ..FILE_FORMATS }
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let options = request.options;
        let path = PathBuf::from(options.required_text("path"));
        refuse_remote(options.required_text("path"))?;
        let mut settings = DirectorySinkSettings::new(request.format.file("")?);
        settings.overwrite = options.boolean("overwrite");
        settings.sync = sync(options);
        options.set_integer("rows_max", &mut settings.rows_max);
        settings.bytes_max = options.bytes("bytes_max").map_or(settings.bytes_max, |bytes| bytes.max(1));
        settings.age_max = options.duration("age_max").unwrap_or(settings.age_max);
        let is_text = settings.format.text().is_some();
        let open: Arc<OpenSink> = Arc::new(move |of| {
            let settings = DirectorySinkSettings { resume: of.resume, ..settings.clone() };
            Ok(Box::new(DirectorySink::create(&path, of.schema, &settings)?))
        });
        sifted_if_text(request, is_text, open)
    }
}
