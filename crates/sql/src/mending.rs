//! What helps a durable query that cannot go on: sinks are brought to a state that is left, rows are left out.

use tidemill_engine::{Cause, Positions, Repair, Sink, Skip, find_repair, find_skip};

use crate::prepared::Prepared;
use crate::running::{durable_sources, open};

impl Prepared {
    /// Whether a durable query could go on with its journal and these sinks; if not, what a repair would do, which is done
    /// if `is_to_be_done`. `None`: it can go on.
    ///
    /// # Errors
    /// If it is not durable, or a repair would not help.
    pub fn repair(self, mut sinks: Vec<Box<dyn Sink>>, is_to_be_done: bool) -> Result<Option<Repair>, Cause> {
        let (Some((_, durability)), Some(journal)) = (&self.durability, &self.journal) else {
            return Err(not_durable());
        };
        let opened = self.sources.iter().map(open).collect::<Result<Vec<_>, Cause>>()?;
        let sources = durable_sources(&self.sources, opened);
        let repair = find_repair(&self.plan, &mut sinks, &sources, journal, durability)?;
        if let (true, Some(repair)) = (is_to_be_done, &repair) {
            repair.carry_out(journal)?;
        }
        Ok(repair)
    }

    /// What it takes to leave out the rows at some positions of a stream of a durable query, which is done if
    /// `is_to_be_done`. The stream need not be named if there is one only.
    ///
    /// # Errors
    /// If it is not durable, if there is no such stream or row, or if every state that is left has one of the rows.
    pub fn skip(
        self,
        mut sinks: Vec<Box<dyn Sink>>,
        stream: Option<&str>,
        positions: &Positions,
        is_to_be_done: bool,
    ) -> Result<Skip, Cause> {
        let (Some((_, durability)), Some(journal)) = (&self.durability, &self.journal) else {
            return Err(not_durable());
        };
        let names = self.plan.sources.iter().map(|source| source.name.as_str());
        let stream = named(stream, &names.collect::<Vec<_>>())?;
        let opened = self.sources.iter().map(open).collect::<Result<Vec<_>, Cause>>()?;
        let sources = durable_sources(&self.sources, opened);
        let asked = (stream.as_str(), positions);
        let skip = find_skip(&self.plan, &mut sinks, &sources, journal, durability, asked)?;
        if is_to_be_done {
            skip.carry_out(journal)?;
        }
        Ok(skip)
    }
}

fn not_durable() -> Cause {
    Cause::user("the pipeline is not durable: none of its sources has durable = true")
}

/// The stream that is meant.
fn named(stream: Option<&str>, names: &[&str]) -> Result<String, Cause> {
    let all = names.join(", ");
    match (stream, names) {
        (None, [name]) => Ok((*name).to_owned()),
        (None, _) => Err(Cause::user(format!("the pipeline has several streams ({all}); say --stream NAME"))),
        (Some(stream), _) if names.contains(&stream) => Ok(stream.to_owned()),
        (Some(stream), _) => Err(Cause::user(match crate::suggest::closest(stream, names.iter().copied()) {
            Some(meant) => format!("the pipeline has no stream '{stream}'; did you mean '{meant}'?"),
            None => format!("the pipeline has no stream '{stream}', only {all}"),
        })),
    }
}
