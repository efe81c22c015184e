//! A sink outside of the cluster: rows that are staged are there, but not final.

use tidemill_cluster::fence::Fence;
use tidemill_cluster::generation::GenerationNumber;

use super::ledger::Ledger;
use super::message::{Message, Row};
use super::rules::Rule;

#[derive(Default)]
pub struct Sink {
    fence: Fence,
    /// All that was written, of which the first `is_final` are committed.
    rows: Vec<Row>,
    is_final: usize,
    /// Up to which position of the log rows are committed, as the leaders say.
    committed: u64,
    /// The same of the rows that are staged: a leader begins where the last commit was.
    staged: u64,
}

impl Sink {
    /// Carries out a message; returns the answer, which is missing if it is refused.
    pub fn handle(&mut self, message: Message, broken: Option<Rule>, ledger: &mut Ledger) -> Option<Message> {
        let is_unfenced = broken == Some(Rule::Fence);
        let generation = match message {
            Message::TakeOver { generation } => {
                ledger.takes_over(generation);
                // The message may come twice: what this generation has staged meanwhile stays.
                let is_new = self.fence.newest() != GenerationNumber(generation);
                if self.fence.take_over(GenerationNumber(generation)).is_err() && !is_unfenced {
                    return None;
                }
                if is_new {
                    self.staged = self.committed;
                }
                if is_new && broken != Some(Rule::SetBack) {
                    self.rows.truncate(self.is_final);
                }
                generation
            }
            Message::Stage { generation, from, rows } => {
                if self.fence.check(GenerationNumber(generation)).is_err() && !is_unfenced {
                    return None;
                }
                if from == self.staged {
                    self.staged += rows.len() as u64;
                    self.rows.extend(rows);
                }
                generation
            }
            Message::Commit { generation, life, end } => {
                if self.fence.check(GenerationNumber(generation)).is_err() && !is_unfenced {
                    return None;
                }
                if end > self.committed && end <= self.staged {
                    let len = self.rows.len() - (self.staged - end) as usize;
                    ledger.committed(generation, life, &self.rows[self.is_final..len]);
                    (self.is_final, self.committed) = (len, end);
                }
                generation
            }
            _ => return None,
        };
        Some(Message::SinkState { generation, staged: self.staged, committed: self.committed })
    }
}
