//! Sinks that are added to a durable query, or removed from it: what the others need stays, found by what operators compute
//! rather than by their names (docs/decisions/0093).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tidemill_core::snapshot::Snapshot;
use tidemill_plan::{Plan, Producer, StreamRef};

use super::SinkQuery;

/// A sink that was added to a query which had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedSink {
    /// Its name.
    pub name: String,
    /// For each stream the first position whose rows it gets.
    pub begins: Vec<(String, u64)>,
}

/// How the sinks of a query differ from those of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedSinks {
    /// Those that are new, and where they begin.
    pub added: Vec<AddedSink>,
    /// Those that are gone. What they have written stays.
    pub removed: Vec<String>,
    /// Those that continue where they were.
    pub kept: Vec<String>,
    /// The operators that only removed sinks had. Their state is dropped.
    pub dropped: Vec<String>,
}

/// A sink, with what it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SinkPart {
    /// Without control characters.
    name: String,
    checksum: u64,
}

/// An operator, with the sinks that get something of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OperatorPart {
    /// Escaped, so that it is in one line.
    name: String,
    partitions: u32,
    /// Empty: it is not known.
    identity: String,
    sinks: BTreeSet<usize>,
}

/// The parts of a query of which sinks consist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueryParts {
    sinks: Vec<SinkPart>,
    operators: Vec<OperatorPart>,
}

const SINK: &str = "part sink";
const OPERATOR: &str = "part operator";

impl QueryParts {
    /// Of a plan whose sinks get these; empty if that is not known of each.
    pub fn of(plan: &Plan, queries: &[SinkQuery]) -> QueryParts {
        let is_plain = |name: &str| !name.chars().any(char::is_control);
        if queries.len() != plan.sinks.len() || !plan.sinks.iter().all(|sink| is_plain(&sink.name)) {
            return QueryParts::default();
        }
        let sinks = plan.sinks.iter().zip(queries);
        let sinks =
            sinks.map(|(sink, query)| SinkPart { name: sink.name.clone(), checksum: checksum(&query.text) });
        let mut operators: Vec<OperatorPart> = plan
            .operators
            .iter()
            .map(|operator| OperatorPart {
                name: escaped(&operator.name),
                partitions: operator.partitions,
                identity: operator.identity.as_deref().map(escaped).unwrap_or_default(),
                sinks: BTreeSet::new(),
            })
            .collect();
        for (number, sink) in plan.sinks.iter().enumerate() {
            for operator in operators_before(plan, &sink.inputs) {
                operators[operator].sinks.insert(number);
            }
        }
        QueryParts { sinks: sinks.collect(), operators }
    }

    /// As lines, which [`QueryParts::read`] understands.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for SinkPart { name, checksum } in &self.sinks {
            let _ = writeln!(text, "{SINK}\t{name}\t{checksum:016x}");
        }
        for OperatorPart { name, partitions, identity, sinks } in &self.operators {
            let sinks: Vec<String> = sinks.iter().map(usize::to_string).collect();
            let _ = writeln!(text, "{OPERATOR}\t{name}\t{partitions}\t{identity}\t{}", sinks.join(","));
        }
        text
    }

    /// The parts at the beginning of a text, and what follows them.
    pub fn read(text: &str) -> (QueryParts, &str) {
        let (mut parts, mut rest) = (QueryParts::default(), text);
        while let Some((line, after)) = rest.split_once('\n') {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                [kind, name, sum] if *kind == SINK => {
                    let Ok(checksum) = u64::from_str_radix(sum, 16) else { break };
                    parts.sinks.push(SinkPart { name: (*name).to_owned(), checksum });
                }
                [kind, name, partitions, identity, sinks] if *kind == OPERATOR => {
                    let Ok(partitions) = partitions.parse() else { break };
                    let sinks = sinks.split(',').filter_map(|number| number.parse().ok()).collect();
                    let (name, identity) = ((*name).to_owned(), (*identity).to_owned());
                    parts.operators.push(OperatorPart { name, partitions, identity, sinks });
                }
                _ => break,
            }
            rest = after;
        }
        (parts, rest)
    }

    /// Whether it is known what each sink gets.
    pub fn is_known(&self) -> bool {
        !self.sinks.is_empty()
    }

    fn numbers(&self, wanted: impl Fn(&SinkPart) -> bool) -> BTreeSet<usize> {
        (0..self.sinks.len()).filter(|number| wanted(&self.sinks[*number])).collect()
    }

    fn names(&self, numbers: &BTreeSet<usize>) -> Vec<String> {
        numbers.iter().map(|number| self.sinks[*number].name.clone()).collect()
    }

    /// The operators of which one of these sinks gets something.
    fn operators_of(&self, sinks: &BTreeSet<usize>) -> impl Iterator<Item = &OperatorPart> {
        self.operators.iter().filter(|operator| !operator.sinks.is_disjoint(sinks))
    }
}

/// What stays of a query whose sinks have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetainedParts {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub kept: Vec<String>,
    pub dropped: Vec<String>,
    /// The operators that keep their state: their names now, and those under which it is stored.
    states: Vec<(String, String)>,
}

/// Compares the parts of a query with those of an earlier run.
///
/// # Errors
/// Why the earlier run's state cannot be continued.
pub(super) fn compare(
    now: &QueryParts,
    before: &QueryParts,
    queries: &[SinkQuery],
) -> Result<RetainedParts, String> {
    let is_in = |parts: &QueryParts, sink: &SinkPart| parts.sinks.contains(sink);
    let (kept, added) = (now.numbers(|sink| is_in(before, sink)), now.numbers(|sink| !is_in(before, sink)));
    let (stays, removed) =
        (before.numbers(|sink| is_in(now, sink)), before.numbers(|sink| !is_in(now, sink)));
    if kept.is_empty() {
        return Err(format!("none of its sinks ({}) is here unchanged", listed(&before.names(&removed))));
    }
    let changed: Vec<String> =
        now.names(&added).into_iter().filter(|name| before.names(&removed).contains(name)).collect();
    if !changed.is_empty() {
        return Err(format!("the query of {} has changed", of_sinks(&changed)));
    }
    let mut states = Vec::new();
    for operator in now.operators_of(&kept) {
        let same = |other: &&OperatorPart| {
            !operator.identity.is_empty()
                && other.identity == operator.identity
                && other.partitions == operator.partitions
        };
        let mut found = before.operators_of(&stays).filter(same);
        match (found.next(), found.next()) {
            (Some(stored), None) => states.push((operator.name.clone(), stored.name.clone())),
            _ => return Err(format!("it had no operator like '{}', or several", operator.name)),
        }
    }
    let lost = before.operators_of(&stays).find(|stored| states.iter().all(|(_, name)| *name != stored.name));
    if let Some(lost) = lost {
        return Err(format!("'{}', which unchanged sinks had, is not here", lost.name));
    }
    for number in &added {
        let name = &now.sinks[*number].name;
        if queries[*number].from_earliest {
            return Err(format!(
                "sink '{name}' is new and has start = 'earliest', but the rows before have passed the operators. A \
                 sink that is added begins with what comes; remove start, or compute it in a script of its own from a \
                 source with connector = 'journal'"
            ));
        }
        let shared = now.operators_of(&kept).find(|operator| operator.sinks.contains(number));
        if let Some(shared) = shared.filter(|_| queries[*number].is_table) {
            return Err(format!(
                "sink '{name}' is new and gets a table that other sinks have, too ('{}'): it would lack the rows that \
                 do not change any more. Compute it in a script of its own from a source with connector = 'journal'",
                shared.name
            ));
        }
    }
    let dropped = before.operators.iter().filter(|operator| operator.sinks.is_disjoint(&stays));
    Ok(RetainedParts {
        added: now.names(&added),
        removed: before.names(&removed),
        kept: now.names(&kept),
        dropped: dropped.map(|operator| operator.name.clone()).collect(),
        states,
    })
}

/// What would be kept of a query, and what not, for the message that refuses to continue it.
pub(super) fn told(now: &QueryParts, before: &QueryParts) -> String {
    let unchanged = before.numbers(|sink| now.sinks.contains(sink));
    let others = before.numbers(|sink| !now.sinks.contains(sink));
    let operators = |sinks: &BTreeSet<usize>| -> Vec<String> {
        before.operators_of(sinks).map(|operator| operator.name.clone()).collect()
    };
    let with_state = |sinks: &BTreeSet<usize>| {
        let operators = operators(sinks);
        if operators.is_empty() {
            of_sinks(&before.names(sinks))
        } else {
            format!("{} with the state of {}", of_sinks(&before.names(sinks)), listed(&operators))
        }
    };
    let mut text = String::new();
    if !unchanged.is_empty() {
        let _ = write!(text, "unchanged: {}", with_state(&unchanged));
    }
    if !others.is_empty() {
        let between = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{between}changed or gone: {}", with_state(&others));
    }
    text
}

impl RetainedParts {
    /// The state of the operators that keep it, under the names that they have now.
    pub fn state(&self, stored: &Snapshot) -> Snapshot {
        let of = |name: &String| stored.operators.iter().find(|(known, _)| escaped(known) == *name);
        let mut state = Snapshot { cycle: stored.cycle, ..Snapshot::default() };
        for (now, before) in &self.states {
            let Some((known, partitions)) = of(before) else { continue };
            state.operators.insert(now.clone(), partitions.clone());
            if let Some(watermark) = stored.watermarks.get(known) {
                state.watermarks.insert(now.clone(), *watermark);
            }
        }
        state
    }
}

/// The numbers of the operators from which these streams come.
fn operators_before(plan: &Plan, streams: &[StreamRef]) -> BTreeSet<usize> {
    let (mut found, mut next) = (BTreeSet::new(), streams.to_vec());
    while let Some(stream) = next.pop() {
        if let Producer::Operator(operator) = plan.root(stream).producer
            && found.insert(operator)
        {
            next.extend(plan.operators[operator].inputs.iter().map(|input| input.stream));
        }
    }
    found
}

/// FNV-1a, which stays the same in all versions.
fn checksum(text: &str) -> u64 {
    let mixed = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mixed)
}

/// A name in one line, and in one field of it.
fn escaped(name: &str) -> String {
    let escaped = |letter: char| {
        if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() }
    };
    name.chars().map(escaped).collect()
}

fn of_sinks(names: &[String]) -> String {
    let word = if names.len() == 1 { "sink" } else { "sinks" };
    format!("{word} {}", listed(names))
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// For each of these sinks the position of each stream with which it begins.
pub(super) fn begins(added: &[String], streams: &[String], positions: &[u64]) -> Vec<AddedSink> {
    let at: BTreeMap<String, u64> = streams.iter().cloned().zip(positions.iter().copied()).collect();
    let begins: Vec<(String, u64)> = at.into_iter().collect();
    added.iter().map(|name| AddedSink { name: name.clone(), begins: begins.clone() }).collect()
}

#[cfg(test)]
#[path = "../../tests/changed_sinks/mod.rs"]
mod tests;
