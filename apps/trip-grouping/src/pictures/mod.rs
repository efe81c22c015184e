//! Pictures of shares on a map, one for each hour, as SVG.
//!
//! A picture depends on the requests and their shares alone: a run with other workers draws the same bytes.

mod hour_map;
mod palette;
mod projection;
mod sample;

pub use sample::Sample;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::Cause;

use crate::hour_tally::HOUR_S;
use crate::partitioner::{DIMENSIONS, Partitioner, PartitionerPlan};
use crate::request::{Place, Request};
use crate::savings::Savings;
use crate::share::Share;

/// The most shares of two or more that a picture shows. With more, nobody could tell them apart.
const SHARES_MAX: usize = 120;
/// The most people who go alone, or who are not served.
const ALONE_MAX: usize = 120;
/// The most requests whose origins and destinations are points.
const POINTS_MAX: usize = 2000;

/// Where the regions of a partitioning lie.
type Bounds = Vec<[(f64, f64); DIMENSIONS]>;

/// Draws the shares of each hour into a folder; clones draw the same pictures. Whoever feeds the query says which
/// [requests](Self::request) it has, in the same order, before their shares can come; its sink says which [shares](Self::share)
/// were made.
#[derive(Clone)]
pub struct Pictures(Arc<Mutex<Album>>);

/// Everything that pictures are made of.
struct Album {
    folder: PathBuf,
    groups: u32,
    partitioner: Partitioner,
    /// The groups of requests that have no share yet, by their ids.
    waiting: HashMap<i64, u32>,
    /// The borders at the ends of hours, oldest first; the hour of the last request is not among them.
    borders: Vec<(i64, Bounds)>,
    /// The hour of the last request.
    requested_hour: Option<i64>,
    hour: Option<Hour>,
}

/// The shares of one hour.
struct Hour {
    hour: i64,
    savings: Savings,
    unserved_count: u64,
    /// Shares of two and more with their groups.
    shares: Sample<(u32, Share)>,
    alone: Sample<(u32, Request)>,
    unserved: Sample<Request>,
    /// Origins and destinations with their groups.
    points: Sample<(u32, Place, Place)>,
}

impl Hour {
    fn new(hour: i64) -> Hour {
        Hour {
            hour,
            savings: Savings::default(),
            unserved_count: 0,
            shares: Sample::new(SHARES_MAX),
            alone: Sample::new(ALONE_MAX),
            unserved: Sample::new(ALONE_MAX),
            points: Sample::new(POINTS_MAX),
        }
    }
}

impl Pictures {
    /// Creates the folder, if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created; the text names it.
    pub fn create(folder: &Path, plan: &PartitionerPlan) -> Result<Pictures, Cause> {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
        Ok(Pictures(Arc::new(Mutex::new(Album {
            folder: folder.to_owned(),
            groups: plan.groups(),
            partitioner: plan.start(),
            waiting: HashMap::new(),
            borders: Vec::new(),
            requested_hour: None,
            hour: None,
        }))))
    }

    /// Takes requests that are about to be grouped, in the order of their times.
    pub fn request<'a>(&self, requests: impl IntoIterator<Item = &'a Request>) {
        let mut album = self.album();
        requests.into_iter().for_each(|request| album.request(request));
    }

    /// Takes a share, not earlier than those before it.
    ///
    /// # Errors
    /// If an hour is over, and its picture cannot be written.
    pub fn share(&self, share: &Share) -> Result<(), Cause> {
        self.album().share(share)
    }

    /// Takes a request that nobody took along until the end of this cycle.
    ///
    /// # Errors
    /// As [`share`](Self::share).
    pub fn unserved(&self, grouped: i64, request: &Request) -> Result<(), Cause> {
        self.album().unserved(grouped, request)
    }

    /// Draws the last hour.
    ///
    /// # Errors
    /// If its picture cannot be written.
    pub fn finish(&self) -> Result<(), Cause> {
        let mut album = self.album();
        let hour = album.hour.take();
        hour.map_or(Ok(()), |hour| album.draw(&hour))
    }

    fn album(&self) -> parking_lot::MutexGuard<'_, Album> {
        self.0.lock()
    }
}

impl Album {
    fn request(&mut self, request: &Request) {
        let hour = request.requested.div_euclid(HOUR_S);
        if let Some(earlier) = self.requested_hour.filter(|earlier| *earlier < hour) {
            self.borders.push((earlier, self.partitioner.bounds()));
        }
        self.requested_hour = Some(hour);
        let group = self.partitioner.group(request);
        self.waiting.insert(request.id, group);
    }

    fn share(&mut self, share: &Share) -> Result<(), Cause> {
        let group = self.waiting.get(&share.lead().id).copied().unwrap_or(0);
        for member in &share.members {
            self.waiting.remove(&member.request.id);
        }
        let hour = self.hour(share.grouped)?;
        hour.savings.add(share);
        for Request { origin, destination, .. } in share.members.iter().map(|member| member.request) {
            hour.points.push((group, origin, destination));
        }
        match share.members.as_slice() {
            [alone] => hour.alone.push((group, alone.request)),
            _ => hour.shares.push((group, share.clone())),
        }
        Ok(())
    }

    fn unserved(&mut self, grouped: i64, request: &Request) -> Result<(), Cause> {
        let group = self.waiting.remove(&request.id).unwrap_or(0);
        let hour = self.hour(grouped)?;
        hour.unserved_count += 1;
        hour.points.push((group, request.origin, request.destination));
        hour.unserved.push(*request);
        Ok(())
    }

    /// The hour of this time. If it is another one, the earlier one is drawn.
    fn hour(&mut self, time_s: i64) -> Result<&mut Hour, Cause> {
        let hour = time_s.div_euclid(HOUR_S);
        if let Some(earlier) = self.hour.take_if(|earlier| earlier.hour != hour) {
            self.draw(&earlier)?;
        }
        Ok(self.hour.get_or_insert_with(|| Hour::new(hour)))
    }

    fn draw(&mut self, hour: &Hour) -> Result<(), Cause> {
        // The borders at the end of this hour, or those of the last request.
        let earlier = self.borders.iter().rposition(|(of, _)| *of <= hour.hour);
        let is_last = self.requested_hour.is_some_and(|requested| requested <= hour.hour);
        let bounds = match earlier.filter(|_| !is_last) {
            Some(index) => {
                self.borders.drain(..index);
                self.borders[0].1.clone()
            }
            None if is_last => self.partitioner.bounds(),
            None => Vec::new(),
        };
        let path = self.folder.join(format!("{:02}.svg", hour.hour));
        fs::write(&path, hour_map::svg(hour, self.groups, &bounds))
            .map_err(|error| cannot_write(&path, error))
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Cause {
    let text = format!("cannot write {}: {error}; choose another folder", path.display());
    Cause::operation(text).with_source(error)
}
