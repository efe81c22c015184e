//! Which query a folder belongs to. The parts of a query that replaces another (its description, cuts, snapshots, commits and
//! views) are in `queries/<number>/`, so nothing of the other is touched until the file `current` has the new number.
//! The file is replaced as a whole: a crash leaves the one query or the other.
//!
//! `TIDECURR`, version; the number; CRC32 of all of it. Without the file the number is 0.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::failure::failed;
use crate::file_reader::FileReader;
use crate::layout;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDECURR";
const VERSION: u32 = 1;

/// The number of the query that a folder belongs to.
pub(crate) fn number(medium: &dyn Medium, folder: &Path) -> Result<u64, Cause> {
    let path = layout::current(folder);
    let Some(mut reader) = FileReader::open(medium, &path, MAGIC, VERSION)? else { return Ok(0) };
    let number = reader.u64()?;
    reader.finish()?;
    Ok(number)
}

/// Where the parts of the query are that a folder belongs to.
pub(crate) fn folder_of(medium: &dyn Medium, folder: &Path) -> Result<PathBuf, Cause> {
    Ok(layout::query_folder(folder, number(medium, folder)?))
}

/// From now on, durably, the folder belongs to the query of this number.
pub(crate) fn set(medium: &dyn Medium, folder: &Path, number: u64) -> Result<(), Cause> {
    replace(medium, &layout::current(folder), |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(number);
    })
}

/// The number of the query that is to replace the current one, if there is one.
pub(crate) fn next(medium: &dyn Medium, folder: &Path) -> Result<Option<u64>, Cause> {
    let next = number(medium, folder)?.saturating_add(1);
    Ok(numbers(medium, folder)?.contains(&next).then_some(next))
}

/// The folders of the query that a folder belongs to, and of the one that is to replace it.
pub(crate) fn query_folders(medium: &dyn Medium, folder: &Path) -> Result<Vec<PathBuf>, Cause> {
    let numbers = [Some(number(medium, folder)?), next(medium, folder)?];
    Ok(numbers.into_iter().flatten().map(|number| layout::query_folder(folder, number)).collect())
}

fn numbers(medium: &dyn Medium, folder: &Path) -> Result<Vec<u64>, Cause> {
    let queries = layout::queries(folder);
    let names = medium.names(&queries).map_err(|error| failed("list", &queries, error))?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Removes what queries have left that were replaced.
pub(crate) fn remove_replaced(medium: &dyn Medium, folder: &Path, current: u64) -> Result<(), Cause> {
    if current == 0 {
        return Ok(());
    }
    let removed = |path: &Path, result: std::io::Result<()>| match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    };
    for path in [layout::query(folder), layout::commits(folder), layout::away(folder)] {
        removed(&path, medium.remove(&path))?;
    }
    for path in [layout::cuts(folder), layout::snapshots(folder), layout::views(folder)] {
        removed(&path, medium.remove_folder(&path))?;
    }
    for number in numbers(medium, folder)?.into_iter().filter(|number| *number < current) {
        let path = layout::query_folder(folder, number);
        removed(&path, medium.remove_folder(&path))?;
    }
    Ok(())
}
