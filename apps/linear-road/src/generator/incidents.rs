//! Accidents and breakdowns: where and when cars stand, and their effect on the traffic around them.

use super::random::Random;
use super::road::{ACCIDENT_DUE, ACCIDENT_ZONE, BREAKDOWN_DUE, COLLISION_AHEAD, Road};
use crate::event::{SEGMENT_FEET, SEGMENTS};

/// The first accident of an expressway is due after 5 to 15 minutes, ...
const FIRST_ACCIDENT_S: (u32, u32) = (300, 900);
/// ... each further one 10 to 30 minutes after the one before was due.
const NEXT_ACCIDENT_S: (u32, u32) = (600, 1800);
/// From the collision until all cars drive on.
const ACCIDENT_LENGTH_S: (u32, u32) = (600, 1200);
/// Share of the accidents that a third car drives into, percent.
const THIRD_CAR_PERCENT: u32 = 15;
/// A stopped car that nobody has hit by then continues.
const WAIT_FOR_COLLISION_S: u32 = 600;
/// If no car has come to the chosen segment by then, another one is chosen.
const WAIT_FOR_CAR_S: u32 = 120;
/// Between two breakdowns of an expressway.
const NEXT_BREAKDOWN_S: (u32, u32) = (300, 900);
/// How long a broken-down car stands.
const BREAKDOWN_LENGTH_S: (u32, u32) = (60, 480);
/// Segments upstream of an accident in which cars are warned of it.
const ZONE_UPSTREAM: i16 = 4;
/// Speed of the traffic in the segment of an accident, relative to a free one.
const SPEED_AT_ACCIDENT: f32 = 0.8;
/// The same for the segment before.
const SPEED_BEFORE_ACCIDENT: f32 = 0.9;
/// A time that is never reached.
const NEVER_S: u32 = u32::MAX;

/// A car made to stand still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halt {
    pub(super) lane: u8,
    pub(super) pos: u32,
    /// The argument for [`Incidents::stands`].
    pub(super) standstill: u32,
}

/// A car that passes a segment with conditions: its movement from the last report to this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) xway: u16,
    pub(super) dir: u8,
    pub(super) lane: u8,
    pub(super) pos_from: u32,
    pub(super) pos_to: u32,
}

/// One stopped car waiting to be hit, or an accident.
#[derive(Clone, Copy, Debug)]
struct Accident {
    dir: u8,
    lane: u8,
    pos: u32,
    cars: u8,
    cars_wanted: u8,
    standstill: u32,
    until_s: u32,
}

impl Accident {
    fn seg(&self) -> u8 {
        (self.pos / SEGMENT_FEET) as u8
    }

    fn is_hit_by(&self, passage: &Passage) -> bool {
        let passed = if self.dir == 0 {
            (passage.pos_from + 1..=passage.pos_to).contains(&self.pos)
        } else {
            (passage.pos_to..passage.pos_from).contains(&self.pos)
        };
        self.cars < self.cars_wanted && self.dir == passage.dir && passed
    }
}

/// When the next incident of a kind is due and, once it is, where.
#[derive(Clone, Copy, Debug)]
struct Plan {
    due_s: u32,
    place: Option<(u8, u8)>,
    /// Until when a car must have come to the place.
    place_until_s: u32,
}

impl Plan {
    fn new(due_s: u32) -> Self {
        Plan { due_s, place: None, place_until_s: NEVER_S }
    }

    /// Chooses a place if one is due, or another if no car came to it.
    fn advance(&mut self, time_s: u32, random: &mut Random) {
        let waits = self.place.is_some() && time_s < self.place_until_s;
        if time_s >= self.due_s && !waits {
            let (dir, seg) = (random.below(2) as u8, random.below(SEGMENTS as u32) as u8);
            self.place = Some((dir, seg));
            self.place_until_s = time_s + WAIT_FOR_CAR_S;
        }
    }

    fn next_change_s(&self) -> u32 {
        if self.place.is_some() { self.place_until_s } else { self.due_s }
    }
}

/// What goes wrong on one expressway.
#[derive(Clone, Debug)]
struct ExpresswayIncidents {
    accident: Plan,
    breakdown: Plan,
    accidents: Vec<Accident>,
    next_change_s: u32,
}

impl ExpresswayIncidents {
    /// Writes the conditions of the expressway to its segments, and determines when they change by themselves.
    fn apply(&mut self, xway: u16, road: &mut Road) {
        road.clear_conditions(xway);
        if let Some((dir, seg)) = self.accident.place {
            road.add_condition(xway, dir, seg, 0, ACCIDENT_DUE);
        }
        if let Some((dir, seg)) = self.breakdown.place {
            road.add_condition(xway, dir, seg, 0, BREAKDOWN_DUE);
        }
        self.next_change_s = self.accident.next_change_s().min(self.breakdown.next_change_s());
        for accident in &self.accidents {
            let (dir, seg) = (accident.dir, accident.seg());
            if accident.cars < accident.cars_wanted {
                // A car that passes the stopped one reports from its segment or from the next one.
                road.add_condition(xway, dir, seg, 0, COLLISION_AHEAD);
                road.add_condition(xway, dir, seg, 1, COLLISION_AHEAD);
            }
            if accident.cars > 1 {
                for upstream in 0..=ZONE_UPSTREAM {
                    road.add_condition(xway, dir, seg, -upstream, ACCIDENT_ZONE);
                }
                road.slow_down(xway, dir, seg, 0, SPEED_AT_ACCIDENT);
                road.slow_down(xway, dir, seg, -1, SPEED_BEFORE_ACCIDENT);
            }
            self.next_change_s = self.next_change_s.min(accident.until_s);
        }
    }
}

/// The incidents of all expressways.
#[derive(Clone, Debug)]
pub(super) struct Incidents {
    random: Random,
    expressways: Vec<ExpresswayIncidents>,
    /// By standstill: when it ends.
    standstill_until_s: Vec<u32>,
}

impl Incidents {
    pub(super) fn new(expressways: u16, mut random: Random) -> Self {
        let expressways = (0..expressways)
            .map(|_| ExpresswayIncidents {
                accident: Plan::new(draw(&mut random, FIRST_ACCIDENT_S)),
                breakdown: Plan::new(draw(&mut random, NEXT_BREAKDOWN_S)),
                accidents: Vec::new(),
                next_change_s: 0,
            })
            .collect();
        Incidents { random, expressways, standstill_until_s: Vec::new() }
    }

    /// Whether a car with this [`Halt::standstill`] still stands.
    pub(super) fn stands(&self, standstill: u32, time_s: u32) -> bool {
        time_s < self.standstill_until_s[standstill as usize]
    }

    /// Must be called every second: begins and ends whatever is due.
    pub(super) fn advance(&mut self, time_s: u32, road: &mut Road) {
        for (xway, expressway) in self.expressways.iter_mut().enumerate() {
            if time_s < expressway.next_change_s {
                continue;
            }
            expressway.accident.advance(time_s, &mut self.random);
            expressway.breakdown.advance(time_s, &mut self.random);
            expressway.accidents.retain(|accident| time_s < accident.until_s);
            expressway.apply(xway as u16, road);
        }
    }

    /// Stops a car in a travel lane of a segment with `conditions`, if it is to have an accident or a
    /// breakdown on its way.
    #[cold]
    pub(super) fn stop(
        &mut self,
        passage: &Passage,
        conditions: u8,
        time_s: u32,
        road: &mut Road,
    ) -> Option<Halt> {
        let halt = if conditions & COLLISION_AHEAD != 0
            && let Some(halt) = self.collide(passage, time_s)
        {
            halt
        } else if conditions & ACCIDENT_DUE != 0 {
            self.begin_accident(passage, time_s)
        } else if conditions & BREAKDOWN_DUE != 0 {
            self.begin_breakdown(passage, time_s)
        } else {
            return None;
        };
        self.expressways[usize::from(passage.xway)].apply(passage.xway, road);
        Some(halt)
    }

    fn collide(&mut self, passage: &Passage, time_s: u32) -> Option<Halt> {
        let accidents = &mut self.expressways[usize::from(passage.xway)].accidents;
        let accident = accidents.iter_mut().find(|accident| accident.is_hit_by(passage))?;
        accident.cars += 1;
        if accident.cars == 2 {
            accident.until_s = time_s + draw(&mut self.random, ACCIDENT_LENGTH_S);
            self.standstill_until_s[accident.standstill as usize] = accident.until_s;
        }
        Some(Halt { lane: accident.lane, pos: accident.pos, standstill: accident.standstill })
    }

    fn begin_accident(&mut self, passage: &Passage, time_s: u32) -> Halt {
        let until_s = time_s + WAIT_FOR_COLLISION_S;
        let halt = self.halt(passage, until_s);
        let cars_wanted = 2 + u8::from(self.random.percent(THIRD_CAR_PERCENT));
        let expressway = &mut self.expressways[usize::from(passage.xway)];
        expressway.accidents.push(Accident {
            dir: passage.dir,
            lane: halt.lane,
            pos: halt.pos,
            cars: 1,
            cars_wanted,
            standstill: halt.standstill,
            until_s,
        });
        expressway.accident = Plan::new(expressway.accident.due_s + draw(&mut self.random, NEXT_ACCIDENT_S));
        halt
    }

    fn begin_breakdown(&mut self, passage: &Passage, time_s: u32) -> Halt {
        let until_s = time_s + draw(&mut self.random, BREAKDOWN_LENGTH_S);
        let next_s = time_s + draw(&mut self.random, NEXT_BREAKDOWN_S);
        self.expressways[usize::from(passage.xway)].breakdown = Plan::new(next_s);
        self.halt(passage, until_s)
    }

    /// A new standstill at the end of the passage.
    fn halt(&mut self, passage: &Passage, until_s: u32) -> Halt {
        let standstill = self.standstill_until_s.len() as u32;
        self.standstill_until_s.push(until_s);
        Halt { lane: passage.lane, pos: passage.pos_to, standstill }
    }
}

fn draw(random: &mut Random, (shortest_s, longest_s): (u32, u32)) -> u32 {
    random.between(shortest_s, longest_s)
}
