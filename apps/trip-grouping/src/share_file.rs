//! A sink that writes shares into a file as they are made, and sums up what they save.

use std::ops::RangeInclusive;
use std::path::Path;

use tidemill_engine::{Cause, CycleOutput, Sink};

use crate::hour_tally::HourTally;
use crate::pictures::Pictures;
use crate::result_file::ResultFile;
use crate::savings::Savings;
use crate::schema;
use crate::share::Share;
use crate::text;

/// The savings of each hour in which shares were made.
pub type Tally = HourTally<Savings>;

/// Receives the [members](schema::members) of shares. The file, if there is one, has a line for each request, in an order
/// that does not depend on where cycles are cut.
pub struct ShareFile {
    file: ResultFile,
    tally: Tally,
    /// Shares of cycles that are prepared and not committed.
    prepared: Vec<Share>,
    pictures: Option<Pictures>,
}

impl ShareFile {
    /// Only sums up.
    pub fn without_file(tally: Tally) -> Self {
        ShareFile { file: ResultFile::default(), tally, prepared: Vec::new(), pictures: None }
    }

    /// Creates the file, and replaces an earlier one.
    ///
    /// # Errors
    /// If it cannot be written; the text names it.
    pub fn create(path: &Path, tally: Tally) -> Result<Self, Cause> {
        let file = ResultFile::create(path, text::SHARE_HEADER)?;
        Ok(ShareFile { file, ..ShareFile::without_file(tally) })
    }

    /// Draws the shares, too.
    #[must_use]
    pub fn with_pictures(self, pictures: Option<Pictures>) -> Self {
        ShareFile { pictures, ..self }
    }
}

impl Sink for ShareFile {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut shares: Vec<Share> = output.streams.iter().flatten().flat_map(schema::shares_of).collect();
        // They come group by group. A grouping cycle is never divided, but one cycle of the engine may hold several.
        shares.sort_by_key(|share| share.grouped);
        if let Some(lines) = self.file.lines() {
            shares.iter().for_each(|share| text::write_share(share, lines));
        }
        self.prepared.append(&mut shares);
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.file.commit()?;
        if let Some(pictures) = &self.pictures {
            self.prepared.iter().try_for_each(|share| pictures.share(share))?;
        }
        self.tally
            .add(self.prepared.drain(..).map(|share| (share.grouped, share)), |sum, share| sum.add(&share));
        Ok(())
    }
}
