//! Definitions whose file is named by a relative path.

use std::path::Path;

use crate::statement::{OptionValue, Options, Span, Statement, StatementKind};

impl Statement {
    /// The same definition, whose file is that in a folder; `None` if it names no file by a relative path.
    pub(crate) fn with_path_in(&self, folder: &Path) -> Option<Statement> {
        let mut whole = self.clone();
        let options = match &mut whole.kind {
            StatementKind::CreateSource(create) | StatementKind::CreateTable(create) => &mut create.options,
            StatementKind::CreateSink(create) => &mut create.options,
            _ => return None,
        };
        let (place, path) = whole_path(options, folder)?;
        options.set_text("path", &path);
        let (start, bytes) = (self.span.start.byte as usize, place.bytes());
        let path = format!("'{}'", path.replace('\'', "''"));
        whole.text.replace_range(bytes.start - start..bytes.end - start, &path);
        Some(whole)
    }
}

/// Where the relative path of a file stands, and what it is in a folder.
fn whole_path(options: &Options, folder: &Path) -> Option<(Span, String)> {
    let connector = options.get("connector").map(|entry| &entry.value);
    let is_file = connector.is_none_or(|name| matches!(name, OptionValue::Text(name) if name == "file"));
    let entry = options.get("path").filter(|_| is_file)?;
    let OptionValue::Text(path) = &entry.value else { return None };
    // What stands elsewhere is not known here.
    let is_relative = Path::new(path).is_relative() && !path.contains("://") && !path.contains("${");
    let whole = folder.join(path).to_str()?.to_owned();
    is_relative.then_some((entry.value_span, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn relative_paths_of_files_become_those_in_the_folder() {
        let kept = |text: &str| {
            let statement = parse(&format!("SHOW SINKS;\n {text}"), "test").unwrap().remove(1);
            statement.with_path_in(Path::new("/data/it's")).map(|whole| {
                // It means what its text says.
                let read = parse(&whole.text, "test").unwrap().remove(0);
                assert_eq!(read.kind.is_definition(), whole.kind.is_definition());
                whole.text
            })
        };
        assert_eq!(
            kept("CREATE SINK s WITH (format = 'csv', path = 'out/ä.csv') AS SELECT 1 AS n").as_deref(),
            Some("CREATE SINK s WITH (format = 'csv', path = '/data/it''s/out/ä.csv') AS SELECT 1 AS n")
        );
        assert_eq!(
            kept("CREATE SOURCE s (n BIGINT) WITH (connector = file, path = 'logs/*.json')").as_deref(),
            Some("CREATE SOURCE s (n BIGINT) WITH (connector = file, path = '/data/it''s/logs/*.json')")
        );
        for same in [
            "CREATE SINK s WITH (path = '/out.csv') AS SELECT 'path = out' AS n",
            "CREATE SINK s WITH (path = '${OUT}') AS SELECT 1 AS n",
            "CREATE SOURCE s (n BIGINT) WITH (path = 's3://bucket/in.csv')",
            "CREATE SOURCE s (n BIGINT) WITH (connector = 'http', path = 'in')",
            "CREATE VIEW v AS SELECT 1 AS n",
        ] {
            assert_eq!(kept(same), None, "{same}");
        }
    }
}
