//! The plan to be run, in human-readable form.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::num::NonZero;
use std::thread::available_parallelism;

use tidemill_engine::{
    Counter, OperatorPlan, PartitionMove, Plan, Producer, SplitStatus, Status, StreamRef, choose, compare,
};

use crate::masked;
use crate::query::pipeline::{DurableRunPlan, Pipeline};
use crate::query::prepared::Prepared;
use crate::query::status::QueryStatus;
use crate::split_profiles::RequestedSplit;
use crate::text::wording::{plain_values, sql_casts};

impl Prepared {
    /// The plan: sources, transforms, operators with their partitions and splits, outputs; when cycles close.
    pub fn explain(&self) -> String {
        self.explained().text()
    }

    fn explained_with(&self, durable: Option<&DurableRunPlan>) -> Explained {
        let requested = &self.dataflow.splits;
        Explained {
            settings: self.settings_text(durable),
            lines: plan_lines(self),
            splits: requested.keys().cloned().collect(),
            costs: requested
                .iter()
                .map(|((operator, input), requested)| self.costs_text(operator, *input, requested))
                .collect(),
        }
    }

    /// The model's prediction for a split, from its costs in an earlier run.
    fn costs_text(&self, name: &str, input: usize, requested: &RequestedSplit) -> String {
        let what = format!("the split of operator '{name}', input {input}");
        let operator = self.dataflow.plan.operators.iter().find(|operator| operator.name == name);
        let planned = operator.and_then(|operator| operator.inputs.get(input));
        let planned = planned.and_then(|input| Some((input.split.as_ref()?, &input.auto_split)));
        let (Some(profile), Some((plan, auto))) = (&requested.profile, planned) else {
            return format!(
                "{what}: its costs on this machine are not known yet; EXPLAIN ANALYZE measures them, and so \
                 does a run with batches of 512 rows or more"
            );
        };
        let cores = available_parallelism().map_or(1, NonZero::get);
        let workers = (self.settings.workers * self.settings.processes).min(cores) as u32;
        let choice = match auto {
            Some(auto) => choose(profile, plan.partitions, auto.desired_rate, workers),
            None => compare(plan.clone(), profile, workers),
        };
        format!(
            "{what}, by the costs measured in earlier runs, for the split and the operator alone: {choice}"
        )
    }

    /// A description of the plan that can be completed with measurements.
    pub fn explained(&self) -> Explained {
        self.explained_with(None)
    }

    fn settings_text(&self, durable: Option<&DurableRunPlan>) -> String {
        let cycles = self.cycles();
        let wait = cycles.wait_max.map_or("for ever".to_string(), |wait| {
            format!("at most {}", crate::text::duration::display_ns(wait.as_nanos() as i64))
        });
        let bound = self
            .max_latency
            .map_or("none".to_string(), |bound| crate::text::duration::display_ns(bound.as_nanos() as i64));
        let processes = match self.settings.processes {
            1 => String::new(),
            processes => format!(" in each of {processes} processes"),
        };
        let idle = if cycles.close_when_idle { ", or when workers are idle" } else { "" };
        let mut text = format!(
            "workers: {}{processes}; latency bound: {bound}\ncycles: up to {} events, an event waits {wait}{idle}\n",
            self.settings.workers, cycles.events_max
        );
        if self.dataflow.sources.iter().any(|source| source.definition.event_time.is_some()) {
            text.push_str(
                "late rows: excluded from every output, with or without windows; late(TABLE(source)) returns \
                 them\n",
            );
        }
        text.push_str(&self.real_time.explain());
        if let Some(DurableRunPlan { folder, durability, .. }) = durable {
            let every = crate::text::duration::display_ns(durability.snapshot_every.as_nanos() as i64);
            let _ = writeln!(text, "durable: journal in {}, a snapshot every {every}", folder.display());
        }
        if self.is_answered_at_end() {
            text.push_str("the answer is computed from the outputs below when the input ends\n");
        }
        text
    }
}

impl Pipeline {
    /// As [`Prepared::explain`].
    pub fn explain(&self) -> String {
        self.explained().text()
    }

    /// As [`Prepared::explained`].
    pub fn explained(&self) -> Explained {
        self.prepared.explained_with(self.durable.as_ref())
    }
}

/// A plan's description, kept while the query runs.
pub struct Explained {
    settings: String,
    lines: Vec<PlanLine>,
    /// The inputs that are split by hand, whose splits are compared with their models.
    splits: BTreeSet<(String, usize)>,
    /// What the models of these splits say by earlier runs.
    costs: Vec<String>,
}

impl Explained {
    /// The plan as it is before it runs.
    pub fn text(&self) -> String {
        let mut text = self.settings.clone();
        self.lines.iter().for_each(|line| line.write(&mut text, None));
        for costs in &self.costs {
            let _ = writeln!(text, "{costs}");
        }
        text
    }

    /// The plan with the work of each part.
    pub fn with(&self, status: &QueryStatus) -> String {
        let mut text = self.settings.clone();
        for line in &self.lines {
            line.write(&mut text, Some(status));
        }
        let by_hand = |split: &&SplitStatus| self.splits.contains(&(split.operator.clone(), split.input));
        for split in status.engine.splits.iter().filter(by_hand) {
            let _ = writeln!(text, "{split}");
        }
        text.push_str(&moves_text(&status.engine));
        text
    }
}

/// How many partitions have moved, and the last of them.
fn moves_text(status: &Status) -> String {
    let Some(last) = status.moves.last() else { return String::new() };
    let PartitionMove { operator, partition, from, to, first_cycle } = last;
    let moved = status.get(Counter::PartitionMoves);
    format!(
        "partitions moved between workers: {moved}; the last is partition {partition} of {}, from worker {from} to \
         {to} at cycle {first_cycle}\n",
        readable(operator)
    )
}

/// A line of a plan; with the number of its work, if it does any.
struct PlanLine {
    depth: usize,
    text: String,
    work: Option<usize>,
}

impl PlanLine {
    fn write(&self, text: &mut String, status: Option<&QueryStatus>) {
        // A query that names a URL may name a secret in it.
        let shown = if self.text.contains("://") { masked(&self.text) } else { Cow::from(&self.text) };
        let _ = write!(text, "{}{shown}", "  ".repeat(self.depth));
        if let (Some(index), Some(status)) = (self.work, status)
            && let Some(work) = status.engine.work.get(index)
        {
            let all_ns: u64 = status.engine.work.iter().map(|work| work.time_ns).sum();
            let share = 100.0 * work.time_ns as f64 / all_ns.max(1) as f64;
            let per_row = work.time_ns as f64 / work.rows_in.max(1) as f64;
            let _ = write!(
                text,
                "   [{share:.1} % of the time, {per_row:.1} ns/row, {} rows in, {} out]",
                work.rows_in, work.rows_out
            );
        }
        text.push('\n');
    }
}

fn plan_lines(prepared: &Prepared) -> Vec<PlanLine> {
    let plan = &prepared.dataflow.plan;
    let mut lines = Vec::new();
    for (sink, output) in plan.sinks.iter().zip(&prepared.outputs) {
        let kind = match &output.table_key {
            None if output.is_changing => "changes",
            None => "rows",
            Some(_) => "upserts",
        };
        lines.push(PlanLine { depth: 0, text: format!("output {}: {kind}", sink.name), work: None });
        for input in &sink.inputs {
            stream_lines(prepared, plan, *input, 1, &mut lines);
        }
    }
    lines
}

fn stream_lines(
    prepared: &Prepared,
    plan: &Plan,
    stream: StreamRef,
    depth: usize,
    lines: &mut Vec<PlanLine>,
) {
    match stream.producer {
        Producer::Source(index) => {
            let source = &prepared.dataflow.sources[index];
            let definition = &source.definition;
            let columns: Vec<&str> = source
                .columns
                .iter()
                .map(|column| definition.schema.field(*column).name().as_str())
                .collect();
            let late = if stream.port == 1 { ", late rows" } else { "" };
            let time = definition.event_time.map_or("no event time".to_string(), |event_time| {
                let name = definition.schema.field(event_time.column).name();
                match event_time.delay_ns {
                    0 => format!("event time {name}"),
                    delay_ns => {
                        format!(
                            "event time {name}, {} late at most",
                            crate::text::duration::display_ns(delay_ns)
                        )
                    }
                }
            });
            let text = format!("source {}{late} ({}): {time}", definition.name, columns.join(", "));
            lines.push(PlanLine { depth, text, work: None });
        }
        Producer::Transform(index) => {
            let transform = &plan.transforms[index];
            lines.push(PlanLine { depth, text: readable(&transform.name), work: Some(index) });
            stream_lines(prepared, plan, transform.input, depth + 1, lines);
        }
        Producer::Operator(index) => {
            let operator = &plan.operators[index];
            let split = split_text(prepared, operator);
            let text =
                format!("operator {} ({split}){}", readable(&operator.name), place_text(prepared, operator));
            lines.push(PlanLine { depth, text, work: Some(plan.transforms.len() + index) });
            for input in &operator.inputs {
                stream_lines(prepared, plan, input.stream, depth + 1, lines);
            }
        }
    }
}

/// The place of an operator that is part of a process.
fn place_text(prepared: &Prepared, operator: &OperatorPlan) -> String {
    let Some(process) = operator.stream_process else { return String::new() };
    let (name, place) =
        (&prepared.dataflow.plan.stream_processes[process].name, prepared.dataflow.places[process]);
    format!(", process {name} on worker {place}")
}

/// How rows reach the partitions of an operator.
fn split_text(prepared: &Prepared, operator: &OperatorPlan) -> String {
    let by_hand = operator.inputs.iter().enumerate().filter_map(|(index, input)| {
        let RequestedSplit { text, profile, .. } =
            prepared.dataflow.splits.get(&(operator.name.clone(), index))?;
        let keeps_shape = input.auto_split.as_ref().is_some_and(|auto| auto.keeps_shape);
        Some(match &input.split {
            Some(plan) if keeps_shape => format!("{}: {plan}, its window as measured", readable(text)),
            Some(_) if input.auto_split.is_some() && profile.is_some() => {
                format!("{}: by earlier measurements (see below), then as measured", readable(text))
            }
            Some(plan) if input.auto_split.is_some() => {
                format!("{}: {plan} at first, then as measured", readable(text))
            }
            Some(plan) => format!("{}: {plan}", readable(text)),
            None => readable(text),
        })
    });
    let by_hand: Vec<String> = by_hand.collect();
    match (operator.partitions, by_hand.is_empty()) {
        (partitions, false) => format!("{partitions} sub-streams, {}", by_hand.join("; ")),
        (1, true) => "1 partition".to_string(),
        (partitions, true) => format!("{partitions} partitions, split by hash of the key"),
    }
}

/// A name without the planner's notation for constants and types.
fn readable(name: &str) -> String {
    sql_casts(&plain_values(&name.replace("count(Int64(1))", "count(*)")))
}
