//! What helps a durable query that cannot continue: sinks are brought to a state that is left, rows are left out.

use tidemill_engine::{Cause, DurableSource, Positions, Repair, Skip, find_repair, find_skip};

use crate::query::opened::{OpenJournal, Opened, durable_sources};

impl Opened {
    /// Whether a durable query could continue with its journal and its sinks; if not, what a repair would do, which is done
    /// if `is_to_be_done`. `None`: it can continue.
    ///
    /// # Errors
    /// If it is not durable, or a repair would not help.
    pub fn repair(self, is_to_be_done: bool) -> Result<Option<Repair>, Cause> {
        let sources = self.durable_sources()?;
        let Opened { prepared, journal, mut sinks, .. } = self;
        let OpenJournal { journal, durability, .. } = journal.ok_or_else(not_durable)?;
        let repair = find_repair(&prepared.dataflow.plan, &mut sinks, &sources, &journal, &durability)?;
        if let (true, Some(repair)) = (is_to_be_done, &repair) {
            repair.carry_out(&journal)?;
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
        stream: Option<&str>,
        positions: &Positions,
        is_to_be_done: bool,
    ) -> Result<Skip, Cause> {
        if self.journal.is_none() {
            return Err(not_durable());
        }
        let names = self.prepared.dataflow.plan.sources.iter().map(|source| source.name.as_str());
        let stream = named(stream, &names.collect::<Vec<_>>())?;
        let sources = self.durable_sources()?;
        let Opened { prepared, journal, mut sinks, .. } = self;
        let OpenJournal { journal, durability, .. } = journal.ok_or_else(not_durable)?;
        let plan = &prepared.dataflow.plan;
        let asked = (stream.as_str(), positions);
        let skip = find_skip(plan, &mut sinks, &sources, &journal, &durability, asked)?;
        if is_to_be_done {
            skip.carry_out(&journal)?;
        }
        Ok(skip)
    }

    fn durable_sources(&self) -> Result<Vec<DurableSource>, Cause> {
        match &self.journal {
            Some(_) => Ok(durable_sources(&self.prepared.dataflow.sources, self.prepared.open_sources()?)),
            None => Err(not_durable()),
        }
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
        (None, _) => Err(Cause::user(format!(
            "the pipeline has several streams ({all}); choose one with \
            --stream NAME"
        ))),
        (Some(stream), _) if names.contains(&stream) => Ok(stream.to_owned()),
        (Some(stream), _) => Err(Cause::user(match crate::closest(stream, names.iter().copied()) {
            Some(meant) => format!("the pipeline has no stream '{stream}'; did you mean '{meant}'?"),
            None => format!("the pipeline has no stream '{stream}'; it has {all}"),
        })),
    }
}
