//! Files of other machines: each is fetched, and then read as any file.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Progress, SourceOffset, SourceOffsets};

use super::offset::FileOffset;
use super::reading::Files;
use super::settings::FileSettings;
use super::text_progress::RowsRead;
use crate::fetch::{Content, Download, Location, list_objects};
use crate::formats::{Format, project};

/// The files of a source that are fetched one after the other.
pub(super) struct RemoteFiles {
    settings: FileSettings,
    declared: SchemaRef,
    projection: Option<Vec<usize>>,
    keeps_bad_records: bool,
    /// Those that are not begun, or that must be checked again.
    left: VecDeque<RemotePart>,
    current: Option<(RemotePart, Step)>,
    changed: Vec<SourceOffset>,
    /// Bytes of files that are done, and of how many they were.
    done_bytes: u64,
    files: u64,
    files_done: u64,
}

/// One of the files.
struct RemotePart {
    part: u64,
    place: Location,
    /// How far an earlier run has read it.
    known: Option<Vec<u8>>,
}

enum Step {
    Fetching(Download),
    Reading(Box<Files>),
}

impl RemoteFiles {
    /// Finds the files. They are fetched when they are polled.
    pub(super) fn open(
        settings: FileSettings,
        place: &Location,
        declared: SchemaRef,
    ) -> Result<RemoteFiles, Cause> {
        let places = list_objects(place, &settings.fetch)?;
        let files = places.len() as u64;
        let left = places
            .into_iter()
            .zip(0..)
            .map(|(place, part)| RemotePart { part, place, known: None })
            .collect();
        let (projection, current, changed) = (None, None, Vec::new());
        Ok(RemoteFiles {
            settings,
            declared,
            projection,
            keeps_bad_records: false,
            left,
            current,
            changed,
            done_bytes: 0,
            files,
            files_done: 0,
        })
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<SchemaRef, Cause> {
        self.projection = Some(columns.to_vec());
        project(&self.declared, columns)
    }

    pub(super) fn keep_bad_records(&mut self) {
        self.keeps_bad_records = true;
    }

    /// Resumes where earlier runs stopped. Files that were read are fetched once more, to see that they are still the same.
    pub(super) fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        let mut known = Vec::new();
        for (part, at) in offsets {
            let FileOffset { path, is_complete, .. } = FileOffset::decode(at)?;
            known.push((path.display().to_string(), *part, is_complete, at.clone()));
        }
        let mut next_part = offsets.last_key_value().map_or(0, |(part, _)| part + 1);
        for file in &mut self.left {
            let name = file.place.shown();
            match known.iter().position(|(known, ..)| *known == name) {
                Some(at) => {
                    let (_, part, _, offset) = known.swap_remove(at);
                    (file.part, file.known) = (part, Some(offset));
                }
                None => {
                    file.part = next_part;
                    next_part += 1;
                }
            }
        }
        match known.into_iter().find(|(_, _, is_complete, _)| !is_complete) {
            None => Ok(()),
            Some((name, ..)) => Err(Cause::user(format!(
                "{name}: the file was partly read and is no longer one of the source; put it back, or start over with \
                 another journal"
            ))),
        }
    }

    /// Offsets that changed without rows since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<SourceOffset> {
        std::mem::take(&mut self.changed)
    }

    /// Reads until there are rows, or the time is up. True: the end was reached.
    pub(super) fn read(
        &mut self,
        wait: Duration,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<bool, Cause> {
        let start = Instant::now();
        while given.is_empty() {
            let Some((part, step)) =
                self.current.take().map_or_else(|| self.next(), |current| Ok(Some(current)))?
            else {
                return Ok(true);
            };
            let left = wait.saturating_sub(start.elapsed());
            let next = match step {
                Step::Fetching(download) => match download.wait(left) {
                    Some(fetched) => Some(Step::Reading(Box::new(self.opened(&part, fetched?)?))),
                    None => Some(Step::Fetching(download)),
                },
                Step::Reading(mut files) => {
                    let is_over = files.read(left, given, faults)?;
                    given
                        .iter_mut()
                        .filter_map(|read| read.offset.as_mut())
                        .for_each(|offset| offset.part = part.part);
                    let changed = files.take_changed().into_iter();
                    self.changed.extend(changed.map(|offset| SourceOffset { part: part.part, ..offset }));
                    if is_over {
                        self.done_bytes += files.progress().done;
                        self.files_done += 1;
                    }
                    (!is_over).then_some(Step::Reading(files))
                }
            };
            self.current = next.map(|step| (part, step));
            if start.elapsed() >= wait {
                break;
            }
        }
        Ok(given.is_empty() && self.current.is_none() && self.left.is_empty())
    }

    fn next(&mut self) -> Result<Option<(RemotePart, Step)>, Cause> {
        let Some(part) = self.left.pop_front() else { return Ok(None) };
        let content = match self.settings.known_format()? {
            Format::Lines => Content::Lines,
            format if format.is_text() => Content::Text,
            _ => Content::Columns,
        };
        let download = Download::start(&part.place, content, &self.settings.fetch)?;
        Ok(Some((part, Step::Fetching(download))))
    }

    fn opened(&self, part: &RemotePart, fetched: crate::fetch::FetchedFile) -> Result<Files, Cause> {
        let mut files = Files::of_fetched(self.settings.clone(), SchemaRef::clone(&self.declared), fetched)?;
        if let Some(columns) = &self.projection {
            files.set_projection(columns)?;
        }
        if self.keeps_bad_records {
            files.keep_bad_records();
        }
        if let Some(known) = &part.known {
            files.resume(&SourceOffsets::from([(part.part, known.clone())]))?;
        }
        Ok(files)
    }

    /// First what is fetched counts, then what is read of it.
    pub(super) fn progress(&self) -> Progress {
        let (done, total) = match &self.current {
            Some((_, Step::Fetching(download))) => {
                let (done, total) = download.progress();
                (done, total.map(|total| 2 * total))
            }
            Some((_, Step::Reading(files))) => {
                let progress = files.progress();
                let total = progress.total.unwrap_or(progress.done);
                (total + progress.done, Some(2 * total))
            }
            None => (0, Some(0)),
        };
        let before = 2 * self.done_bytes;
        // Those that are not begun are about as long as the others.
        let begun = self.files_done + u64::from(self.current.is_some());
        let estimated = |total: u64| (before + total).checked_div(begun).map(|each| each * self.files);
        Progress { done: before + done, total: total.and_then(estimated) }
    }
}
