//! More expressways out of few: copies of a group of expressways under shifted ids.
//!
//! A run of many expressways can be made by copying the events of a smaller one, as published results with
//! hundreds of expressways did. Copy `k` of a group of `G` expressways has the expressways `k*G..(k+1)*G` and
//! cars and queries of its own, so that no copy changes the answers of another.

use thiserror::Error;

use crate::event::{Event, HistoryRow, VID_MAX, XWAY_MAX};

/// How the ids of the copies are spaced.
///
/// ```
/// use tidemill_linear_road::event::{BalanceQuery, Event};
/// use tidemill_linear_road::generator::replicate::Replication;
///
/// let replication = Replication::new(3, 2, 1000, 50)?;
/// let query = Event::Balance(BalanceQuery { time: 60, vid: 7, qid: 5 });
/// let copy = replication.event(&query, 2)?;
/// assert_eq!(copy, Event::Balance(BalanceQuery { time: 60, vid: 2007, qid: 105 }));
/// # Ok::<(), tidemill_linear_road::generator::replicate::ReplicationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    copies: u16,
    expressways: u16,
    vid_span: u32,
    qid_span: u64,
}

impl Replication {
    /// `copies` copies (the original, copy 0, included) of a group of `expressways`, whose vehicle ids are
    /// below `vid_span` and whose query ids are below `qid_span`.
    ///
    /// # Errors
    /// [`ReplicationError::Overflow`] if the ids of the last copy do not fit their types.
    pub fn new(
        copies: u16,
        expressways: u16,
        vid_span: u32,
        qid_span: u64,
    ) -> Result<Self, ReplicationError> {
        let overflow = |id, span, largest| ReplicationError::Overflow { id, copies, span, largest };
        let needed = |span: u64| u64::from(copies).checked_mul(span);
        let fits = |span, largest: u64| needed(span).is_some_and(|ids| ids <= largest + 1);
        if !fits(u64::from(expressways), u64::from(XWAY_MAX)) {
            return Err(overflow(Id::Expressway, u64::from(expressways), u64::from(XWAY_MAX)));
        }
        if !fits(u64::from(vid_span), u64::from(VID_MAX)) {
            return Err(overflow(Id::Vehicle, u64::from(vid_span), u64::from(VID_MAX)));
        }
        if needed(qid_span).is_none() {
            return Err(overflow(Id::Query, qid_span, u64::MAX));
        }
        Ok(Replication { copies, expressways, vid_span, qid_span })
    }

    /// Number of copies, the original included.
    pub fn copies(&self) -> u16 {
        self.copies
    }

    /// Number of expressways of all copies together.
    pub fn expressways(&self) -> u16 {
        self.copies * self.expressways
    }

    /// The event in copy `copy` (0 is the original).
    ///
    /// # Errors
    /// [`ReplicationError::OutsideGroup`] if an id of the event is not below its span;
    /// [`ReplicationError::NoSuchCopy`].
    #[inline]
    pub fn event(&self, event: &Event, copy: u16) -> Result<Event, ReplicationError> {
        self.check_copy(copy)?;
        let mut moved = *event;
        match &mut moved {
            Event::Report(event) => {
                event.vid = self.vid(event.vid, copy)?;
                event.xway = self.xway(event.xway, copy)?;
            }
            Event::Balance(event) => {
                event.vid = self.vid(event.vid, copy)?;
                event.qid = self.qid(event.qid, copy)?;
            }
            Event::Expenditure(event) => {
                event.vid = self.vid(event.vid, copy)?;
                event.xway = self.xway(event.xway, copy)?;
                event.qid = self.qid(event.qid, copy)?;
            }
            Event::TravelTime(event) => {
                event.vid = self.vid(event.vid, copy)?;
                event.xway = self.xway(event.xway, copy)?;
                event.qid = self.qid(event.qid, copy)?;
            }
        }
        Ok(moved)
    }

    /// The row of the history in copy `copy` (0 is the original).
    ///
    /// # Errors
    /// As [`Replication::event`].
    pub fn history_row(&self, row: &HistoryRow, copy: u16) -> Result<HistoryRow, ReplicationError> {
        self.check_copy(copy)?;
        let (vid, xway) = (self.vid(row.vid, copy)?, self.xway(row.xway, copy)?);
        Ok(HistoryRow { vid, xway, ..*row })
    }

    #[inline]
    fn check_copy(&self, copy: u16) -> Result<(), ReplicationError> {
        if copy < self.copies {
            Ok(())
        } else {
            Err(ReplicationError::NoSuchCopy { copy, copies: self.copies })
        }
    }

    #[inline]
    fn vid(&self, vid: u32, copy: u16) -> Result<u32, ReplicationError> {
        check_span(Id::Vehicle, u64::from(vid), u64::from(self.vid_span))?;
        Ok(vid + u32::from(copy) * self.vid_span)
    }

    #[inline]
    fn xway(&self, xway: u16, copy: u16) -> Result<u16, ReplicationError> {
        check_span(Id::Expressway, u64::from(xway), u64::from(self.expressways))?;
        Ok(xway + copy * self.expressways)
    }

    #[inline]
    fn qid(&self, qid: u64, copy: u16) -> Result<u64, ReplicationError> {
        check_span(Id::Query, qid, self.qid_span)?;
        Ok(qid + u64::from(copy) * self.qid_span)
    }
}

#[inline]
fn check_span(id: Id, value: u64, span: u64) -> Result<(), ReplicationError> {
    if value < span { Ok(()) } else { Err(ReplicationError::OutsideGroup { id, value, span }) }
}

/// The kinds of ids that copies shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// `XWay`.
    Expressway,
    /// `VID`.
    Vehicle,
    /// `QID`.
    Query,
}

impl std::fmt::Display for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Id::Expressway => "expressway",
            Id::Vehicle => "vehicle id",
            Id::Query => "query id",
        })
    }
}

/// Copies that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplicationError {
    /// The ids of the last copy do not fit.
    #[error(
        "{copies} copies with {span} values of the {id} each go beyond its largest value {largest}: take \
         fewer copies or a smaller group"
    )]
    Overflow {
        /// The id that overflows.
        id: Id,
        /// The number of copies asked for.
        copies: u16,
        /// Values of the id per copy.
        span: u64,
        /// The largest value of the id.
        largest: u64,
    },
    /// An event does not belong to the group described.
    #[error("{id} {value} is not below {span}, the number of its values in the group: give the true number")]
    OutsideGroup {
        /// The id that is too large.
        id: Id,
        /// Its value.
        value: u64,
        /// The number of its values in the group.
        span: u64,
    },
    /// A copy beyond the last.
    #[error("there is no copy {copy}: copies are numbered from 0 to below {copies}")]
    NoSuchCopy {
        /// The copy asked for.
        copy: u16,
        /// The number of copies.
        copies: u16,
    },
}
