//! Queries: right after a report or alone, of cars that are on the road, were, or never will be.

use proptest::prelude::*;
use tidemill_linear_road::event::{BalanceQuery, Event, ExpenditureQuery, TravelTimeQuery};

/// A query, before it has its number.
#[derive(Clone, Debug)]
pub struct Question {
    pub who: Who,
    pub when: When,
    pub what: What,
}

/// Whom a query is about.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// A car, by index.
    Car(usize),
    /// A car that never reports: the first such number from here on.
    Unknown(u32),
}

/// When it is asked.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// In the second of one of the car's reports, by index.
    WithReport(usize),
    /// In the second of the car's last report.
    Last,
    /// In any second.
    At(u16),
}

impl Question {
    /// Asks for a car's balance with its last report.
    pub fn audit(car: usize) -> Question {
        Question { who: Who::Car(car), when: When::Last, what: What::Balance }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Balance,
    Expenditure { day: u8, xway: u16 },
    TravelTime { seg_from: u8, seg_to: u8 },
}

impl What {
    /// The event; the expressway is taken modulo their number.
    pub fn event(self, time: u16, vid: u32, qid: u64, xways: u16) -> Event {
        match self {
            What::Balance => Event::Balance(BalanceQuery { time, vid, qid }),
            What::Expenditure { day, xway } => {
                Event::Expenditure(ExpenditureQuery { time, vid, xway: xway % xways, qid, day })
            }
            What::TravelTime { seg_from, seg_to } => Event::TravelTime(TravelTimeQuery {
                time,
                vid,
                xway: 0,
                qid,
                seg_from,
                seg_to,
                day_of_week: 1,
                minute_of_day: 1,
            }),
        }
    }
}

/// A query, mostly of a balance with a report.
pub fn question() -> impl Strategy<Value = Question> {
    let who = prop_oneof![8 => any::<usize>().prop_map(Who::Car), 1 => any::<u32>().prop_map(Who::Unknown)];
    let when =
        prop_oneof![2 => any::<usize>().prop_map(When::WithReport), 1 => (0..780_u16).prop_map(When::At)];
    let expenditure = (1..=69_u8, 0..6_u16).prop_map(|(day, xway)| What::Expenditure { day, xway });
    let travel_time =
        (0..=99_u8, 0..=99_u8).prop_map(|(seg_from, seg_to)| What::TravelTime { seg_from, seg_to });
    let what = prop_oneof![6 => Just(What::Balance), 2 => expenditure, 1 => travel_time];
    (who, when, what).prop_map(|(who, when, what)| Question { who, when, what })
}
