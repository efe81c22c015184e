//! Short inputs that meet the edges of the rules often: strategies for property tests.
//!
//! An input is drawn as a *plan*: pieces of traffic ([`crash`], [`swarm`], [`wanderer`]) and [`questions`] around
//! a few spots of the road, so that the pieces meet. The plan is then played ([`play`]) into events. A failing
//! input shrinks by its plan: fewer pieces, fewer cars, shorter journeys.

// Each test program compiles this module for itself and uses its own part of it.
#![allow(dead_code)]

pub mod crash;
pub mod play;
pub mod questions;
pub mod swarm;
pub mod traffic;
pub mod wanderer;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use tidemill_linear_road::event::{Event, HistoryRow};

use crash::Crash;
use play::{Gap, Numbering};
use questions::Question;
use swarm::Swarm;
use traffic::{Car, Spot};
use wanderer::Wanderer;

/// What a scenario is made of; all indexes are taken modulo the number of things there are.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many expressways there are, 1 to 6.
    pub xways: u16,
    /// Where the pieces are; their expressways are taken modulo `xways`.
    pub spots: Vec<Spot>,
    pub swarms: Vec<Swarm>,
    pub crashes: Vec<Crash>,
    pub wanderers: Vec<Wanderer>,
    pub questions: Vec<Question>,
    /// Every car asks for its balance with its last report.
    pub audit: bool,
    pub numbering: Numbering,
    /// Lengthened times between two reports; none in a valid input.
    pub gaps: Vec<Gap>,
    /// The input ends before this second.
    pub end_s: u16,
    /// Fixes the order of events within a second.
    pub order: u64,
}

impl Plan {
    /// The cars of all pieces.
    pub fn cars(&self) -> Vec<Car> {
        let spot = |index: usize| {
            let spot = self.spots[index % self.spots.len()];
            Spot { xway: spot.xway % self.xways, ..spot }
        };
        let mut cars = Vec::new();
        cars.extend(self.swarms.iter().flat_map(|swarm| {
            let back = spot(swarm.back.map_or(0, |back| back.spot));
            swarm.cars(spot(swarm.spot), back)
        }));
        cars.extend(self.crashes.iter().flat_map(|crash| crash.cars(spot(crash.spot))));
        cars.extend(self.wanderers.iter().map(|wanderer| {
            let back = spot(wanderer.back.as_ref().map_or(0, |back| back.spot));
            wanderer.car(spot(wanderer.spot), back)
        }));
        cars
    }
}

/// Valid inputs: the properties of section 2 hold (but for queries, which also come without a report and from
/// cars that never report). Ordered by time; within a second in any order, a query after its car's report.
pub fn scenario() -> impl Strategy<Value = Vec<Event>> {
    plan().prop_map(|plan| play::events(&plan))
}

/// Like [`scenario`], but some reports of a trip are more than 30 s apart: up to 60 s is the same trip, more is a
/// new one (section 4).
pub fn scenario_with_gaps() -> impl Strategy<Value = Vec<Event>> {
    (plan(), vec(play::gap(), 1..=8)).prop_map(|(plan, gaps)| play::events(&Plan { gaps, ..plan }))
}

/// A history for an input: a row for every second expenditure query, and one that nobody asks for beside it.
pub fn history(events: &[Event]) -> Vec<HistoryRow> {
    let asked = events.iter().filter_map(|event| match event {
        Event::Expenditure(query) if query.qid.is_multiple_of(2) => Some((query.vid, query.day, query.xway)),
        _ => None,
    });
    let keys: BTreeSet<(u32, u8, u16)> =
        asked.flat_map(|(vid, day, xway)| [(vid, day, xway), (vid, day % 69 + 1, xway)]).collect();
    keys.into_iter()
        .map(|(vid, day, xway)| HistoryRow { vid, day, xway, toll: 10 + (vid ^ u32::from(day)) % 90 })
        .collect()
}

/// The plan of a valid input.
pub fn plan() -> impl Strategy<Value = Plan> {
    let pieces = (
        vec(swarm::swarm(), 0..=3),
        vec(crash::crash(), 0..=5),
        vec(wanderer::wanderer(), 1..=20),
        vec(questions::question(), 0..=30),
        any::<bool>(),
    );
    let end_s = prop_oneof![1 => 60..=300_u16, 4 => 420..=780_u16];
    (1..=6_u16, vec(traffic::spot(), 1..=4), pieces, play::numbering(), end_s, any::<u64>()).prop_map(
        |(xways, spots, (swarms, crashes, wanderers, questions, audit), numbering, end_s, order)| Plan {
            xways,
            spots,
            swarms,
            crashes,
            wanderers,
            questions,
            audit,
            numbering,
            gaps: Vec::new(),
            end_s,
            order,
        },
    )
}
