//! `tidemill journal verify DIR`

use std::path::PathBuf;

use tidemill_engine::inspect::{self, Finding, FindingKind, Listing};
use tidemill_engine::{Cause, ChunkPlace};

use super::database::{self, Part};
use super::missing_parts::{missing, missing_part};
use super::repair::check;
use crate::exit::Exit;
use crate::sql::SessionOptions;
use crate::{quantity, terminal};

/// Read the whole journal and report damage
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Verify {
    /// The journal's folder, or that of a database
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script of the pipeline, which must not be running; also checks with its sinks whether it could resume
    #[arg(value_name = "FILE")]
    script: Option<PathBuf>,
    #[command(flatten)]
    options: SessionOptions,
}

impl Verify {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let folder = &database::journal_in(&self.folder);
        let (mut found, mut views) = (inspect::verify(folder)?, inspect::verify_views(folder, places_of)?);
        for part in database::parts(folder)? {
            match part {
                Part::Query(folder) => match inspect::verify(&folder) {
                    Ok(of_query) => {
                        found.add(of_query);
                        views.add(inspect::verify_views(&folder, places_of)?);
                    }
                    Err(cause) => found.findings.push(missing_part(&folder, cause.to_string())),
                },
                Part::Catalogue(folder) => found.add(inspect::verify_catalogue(&folder)?),
            }
        }
        // What cannot be read is among the findings.
        found.findings.extend(missing(folder).unwrap_or_default());
        let findings = || found.findings.iter().chain(&views.findings);
        findings().try_for_each(|finding| terminal::show(&text_of(finding)))?;
        let damaged = findings().filter(|finding| finding.kind == FindingKind::Damage).count() as u64;
        let (records, bytes) = (quantity::counted(found.records, "record"), quantity::bytes(found.bytes));
        let snapshots = quantity::counted(found.snapshots, "snapshot");
        let chunks = match views.chunks {
            0 => String::new(),
            chunks => {
                let (chunks, bytes) = (quantity::counted(chunks, "chunk"), quantity::bytes(views.bytes));
                format!(", {chunks} of views ({bytes})")
            }
        };
        terminal::tell(&match damaged {
            0 => format!("{records} ({bytes}) and {snapshots}{chunks}, no damage"),
            damaged => format!(
                "{records} ({bytes}) and {snapshots}{chunks}; {} damaged",
                quantity::counted(damaged, "place")
            ),
        });
        // A file that is damaged is among the findings.
        let listing = match inspect::list(folder) {
            Err(_) if damaged > 0 => return Ok(Exit::Differences),
            listing => listing?,
        };
        for (stream, positions) in &listing.skips {
            let rows = quantity::counted(positions.count(), "row");
            terminal::tell(&format!(
                "{rows} of '{stream}' skipped by `tidemill journal skip`: position {positions}"
            ));
        }
        if damaged > 0 {
            return Ok(Exit::Differences);
        }
        // From which states the queries of a database resume is in their own folders.
        let is_database = database::sources(folder)?.is_some();
        let stuck = if is_database { Vec::new() } else { stuck(&listing) };
        stuck.iter().try_for_each(|text| terminal::show(text))?;
        if !stuck.is_empty() {
            return Ok(Exit::Differences);
        }
        self.script.as_ref().map_or(Ok(Exit::Done), |script| check(folder, script, &self.options))
    }
}

/// Where the chunks are that the rows file of a view names.
fn places_of(rows: &[u8]) -> Result<Vec<ChunkPlace>, Cause> {
    let places = tidemill_sql::named_chunks(rows)?.into_iter();
    let place = |place: tidemill_sql::StoredChunkPlace| ChunkPlace {
        file: place.file,
        offset: place.offset,
        length: place.length,
        checksum: place.checksum,
    };
    Ok(places.map(place).collect())
}

fn text_of(finding: &Finding) -> String {
    let (path, offset, reason) = (finding.path.display(), finding.offset, &finding.reason);
    let kind = match finding.kind {
        FindingKind::Damage => "damage",
        FindingKind::TornEnd => "incomplete end, which the next start cuts off",
        FindingKind::Unused => "unused",
    };
    let place = match finding.kind {
        FindingKind::Unused => format!("{path}: "),
        _ => format!("{path}, byte {offset}: "),
    };
    // A cause that comes from reading the file names the place itself.
    let place = if reason.starts_with(&place) { "" } else { place.as_str() };
    format!("{place}{reason} ({kind})")
}

/// Why no run could resume from what is there, as far as the folder alone shows. Sinks that record their cycles
/// themselves are not asked.
fn stuck(listing: &Listing) -> Vec<String> {
    let Some(gone) = listing.streams.iter().find(|stream| stream.first > 0) else { return Vec::new() };
    let gone = format!("rows of '{}' before position {} are gone", gone.name, quantity::count(gone.first));
    let Some(oldest) = listing.snapshots.first() else {
        return vec![format!("{gone}, and there is no state to resume from, so no run can start")];
    };
    let behind = listing.commits.iter().filter(|(_, cycle)| *cycle < oldest);
    let text = |(sink, cycle): (&String, &u64)| {
        format!(
            "{gone}, and the oldest state is the one after cycle {oldest}, but sink '{sink}' is recorded at \
             cycle {cycle}, so no run can start; run `tidemill journal repair`"
        )
    };
    behind.map(text).collect()
}
