//! What cycles cost, in words.

use std::fmt::Write;
use std::time::Duration;

use tidemill_engine::analysis::CostModel;
use tidemill_engine::{CostExceeded, CycleCosts, SizeCosts};

use super::measurement::Measurement;
use crate::logical::shown_text;
use crate::text::wording::plain_values;

/// What cycles cost, and whether more than was stated.
pub(crate) fn costs_text(costs: &CycleCosts) -> String {
    if costs.by_events.is_empty() {
        return String::new();
    }
    let CycleCosts { cycles, per_event, exceeded, worst, .. } = costs;
    let mut text = format!("costs: at most {per_event:.1?} for each event of a cycle, in {cycles} cycles\n");
    text.push_str(&worst_cases_text(costs));
    if let Some(CostExceeded { cycle, events, cost, stated }) = worst {
        let _ = writeln!(
            text,
            "the admission was wrong: {exceeded} cycles cost more than was counted; the worst one, cycle {cycle}, cost \
             {cost:.1?} for {events} events, not {stated:.1?}; state a larger wcet, or a larger margin"
        );
    }
    text
}

/// What was measured before the query runs, and what the analysis makes of it.
pub(crate) fn measured_text(measured: &Measurement, costs: &CycleCosts, cost: Option<CostModel>) -> String {
    let margin = measured.margin;
    match cost {
        Some(CostModel { batch_ns, event_ns }) => format!(
            "costs: measured in {} cycles; {margin} times the worst is at most {:.1?} for a cycle and {:.1?} for \
             each of its events\n",
            costs.cycles,
            Duration::from_nanos(batch_ns),
            Duration::from_nanos(event_ns)
        ),
        None => format!(
            "costs: {} cycles are measured, {} more are needed; {margin} times the worst will count\n",
            costs.cycles,
            measured.cycles_left(costs)
        ),
    }
}

/// The worst cases of each size, and of each part of the plan.
pub(crate) fn worst_cases_text(costs: &CycleCosts) -> String {
    let mut text = String::new();
    for (events_max, size) in &costs.by_events {
        let events = if size.events_min < *events_max {
            format!("up to {events_max}")
        } else {
            events_max.to_string()
        };
        let SizeCosts { whole, parts, rest, .. } = size;
        let of_part = |(name, cost): (&String, &Duration)| {
            format!("{cost:.1?} for {}, ", plain_values(&shown_text(name)))
        };
        let parts: String = costs.parts.iter().zip(parts).map(of_part).collect();
        let s = if *events_max == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  {events} event{s}: {whole:.1?} at most; of the parts at most {parts}{rest:.1?} for the rest"
        );
    }
    text
}
