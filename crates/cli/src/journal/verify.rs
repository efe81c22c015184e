//! `tidemill journal verify DIR`

use std::path::PathBuf;

use tidemill_engine::inspect;

use crate::exit::Exit;
use crate::sql::Failed;
use crate::{quantity, terminal};

/// Read everything and say what is damaged
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Verify {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Verify {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let found = inspect::verify(&self.folder).map_err(Failed)?;
        for finding in &found.findings {
            let (path, offset, reason) = (finding.path.display(), finding.offset, &finding.reason);
            let kind =
                if finding.is_torn_end { "torn end, which is cut off at the next start" } else { "damage" };
            terminal::show(&format!("{path}, byte {offset}: {reason} ({kind})"))?;
        }
        let damaged = found.findings.iter().filter(|finding| !finding.is_torn_end).count() as u64;
        let (records, bytes) = (quantity::counted(found.records, "record"), quantity::bytes(found.bytes));
        let snapshots = quantity::counted(found.snapshots, "snapshot");
        terminal::tell(&match damaged {
            0 => format!("{records} ({bytes}) and {snapshots}, no damage"),
            damaged => format!(
                "{records} ({bytes}) and {snapshots}; {} damaged",
                quantity::counted(damaged, "place")
            ),
        });
        Ok(if damaged == 0 { Exit::Done } else { Exit::Differences })
    }
}
