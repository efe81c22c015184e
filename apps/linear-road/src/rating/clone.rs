//! The base group's state, cloned to many expressways with shifted ids, one partition at a time.

use std::sync::Arc;

use tidemill_engine::StateSource;

use super::feeder::Spans;
use crate::accounts::Accounts;
use crate::query::{ACCOUNTS, TOLLS};
use crate::tolls::Tolls;

/// The operators of the base group at the end of the minutes before the window.
#[derive(Debug)]
pub struct BaseState {
    /// By expressway.
    pub tolls: Vec<Tolls>,
    /// By partition of vehicles.
    pub accounts: Vec<Accounts>,
}

/// The state of `copies` of a base group.
#[derive(Debug)]
pub struct ClonedState {
    /// What is cloned.
    pub base: Arc<BaseState>,
    /// How ids are shifted.
    pub spans: Spans,
    /// The number of copies.
    pub copies: u16,
}

impl StateSource for ClonedState {
    fn partition(&self, operator: &str, partition: u32) -> Option<Vec<u8>> {
        match operator {
            TOLLS => {
                let expressways = u32::from(self.spans.expressways);
                let copy = partition / expressways;
                let tolls = self.base.tolls.get((partition % expressways) as usize)?;
                Some(tolls.snapshot_shifted(copy * self.spans.vids))
            }
            ACCOUNTS => {
                let accounts = self.base.accounts.get(partition as usize)?;
                Some(accounts.snapshot_copies(self.spans.vids, self.copies))
            }
            _ => None,
        }
    }

    fn watermark(&self, _operator: &str) -> Option<i64> {
        None
    }
}
