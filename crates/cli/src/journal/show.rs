//! `tidemill journal show DIR`

use std::path::PathBuf;

use anyhow::Context as _;
use tidemill_engine::inspect::{self, Records};

use crate::exit::Exit;
use crate::sql::{Failed, RowFormat, user_error};
use crate::terminal;

/// Show the rows of a stream
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Show {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The stream; needed only if there are several
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// The first position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
    /// At most so many rows
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    limit: usize,
    /// How rows are shown
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
}

impl Show {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let listing = inspect::list(&self.folder).map_err(Failed)?;
        let names: Vec<&str> = listing.streams.iter().map(|stream| stream.name.as_str()).collect();
        let stream = match (&self.stream, names.as_slice()) {
            (Some(name), _) => name.as_str(),
            (None, [name]) => name,
            (None, names) => return Err(user_error(ambiguous(&self.folder.display().to_string(), names))),
        };
        let first = listing.streams.iter().find(|log| log.name == stream).map_or(0, |log| log.first);
        let records = inspect::records(&self.folder, stream, self.from.max(first)).map_err(Failed)?;
        self.show(records)?;
        Ok(Exit::Done)
    }

    fn show(&self, records: Records) -> anyhow::Result<()> {
        let schema = records.schema();
        let (mut batches, mut left) = (Vec::new(), self.limit);
        for record in records {
            let record = record.map_err(Failed)?;
            let before = self.from.saturating_sub(record.start) as usize;
            let rows = record.rows.slice(before, (record.rows.num_rows() - before).min(left));
            left -= rows.num_rows();
            batches.push(rows);
            if left == 0 {
                break;
            }
        }
        let rows = arrow_select::concat::concat_batches(&schema, &batches);
        self.format.show(&rows.context("the rows are more than can be shown at once")?)?;
        if left == 0 {
            terminal::tell(&format!("(the first {}; --limit and --from show others)", self.limit));
        }
        Ok(())
    }
}

fn ambiguous(folder: &str, names: &[&str]) -> String {
    match names {
        [] => format!("'{folder}' has no stream; is it the journal of a pipeline?"),
        names => format!("'{folder}' has several streams; say --stream {}", names.join(" or ")),
    }
}
