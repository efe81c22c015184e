//! The questions that readers ask.

use tidemill_core::Cause;
use tidemill_store::{Area, Pause, SelectedRows, Selection, Version};

use crate::accounts::{Accounts, DAYS, integers};
use crate::rows::{LENGTH, SEGMENT, mixed};

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    LastPosition,
    CarsInBox,
    PathOfCar,
    StatisticsOfSegment,
    Balance,
    Expenditures,
    AccidentAhead,
    Nearest,
    PathAsOf,
}

impl Kind {
    /// Whether the index of keys leads to the only row.
    pub fn is_of_one_row(self) -> bool {
        matches!(self, Kind::LastPosition | Kind::Balance | Kind::Expenditures)
    }
}

pub const KINDS: [(Kind, &str); 9] = [
    (Kind::LastPosition, "Q1 last position of a car"),
    (Kind::CarsInBox, "Q2 cars in a box now"),
    (Kind::PathOfCar, "Q3 path of a car"),
    (Kind::StatisticsOfSegment, "Q4 statistics of a segment"),
    (Kind::Balance, "Q5 balance of an account"),
    (Kind::Expenditures, "Q6 expenditures of a day"),
    (Kind::AccidentAhead, "Q7 cars before an accident"),
    (Kind::Nearest, "   5 nearest reports"),
    (Kind::PathAsOf, "Q9 path as of 500 cycles ago"),
];

/// A question with its constants.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub kind: Kind,
    pub vid: i64,
    /// The first time that counts.
    pub from: i64,
    pub area: Area,
    pub to: (f64, f64),
    pub day: i64,
}

impl Question {
    /// The question with this number, over reports whose last one is `latest`. "Now" is the last turn of all cars.
    pub fn new(kind: Kind, number: u64, latest: i64, cars: u64, accounts: u64) -> Question {
        let random = mixed(number);
        let x = (mixed(random) % 100) as f64 / 100.0 * LENGTH;
        let y = (random % 10) as f64 * 1000.0;
        let (width, turns) = match kind {
            Kind::StatisticsOfSegment => (SEGMENT, 50),
            Kind::AccidentAhead => (5.0 * SEGMENT, 1),
            Kind::PathOfCar | Kind::PathAsOf => (0.0, 20),
            _ => (SEGMENT, 1),
        };
        Question {
            kind,
            vid: (mixed(random ^ 5) % cars.min(accounts)) as i64,
            from: latest - (turns * cars) as i64,
            area: Area { x: (x, x + width), y: (y, y + 50.0) },
            to: (x, y),
            day: (random % DAYS) as i64,
        }
    }

    /// Asks.
    pub fn ask(
        &self,
        version: &Version,
        accounts: &Accounts,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        let all = Selection::default();
        let since = Some((self.from, i64::MAX));
        let vid = || integers([self.vid].into_iter());
        match self.kind {
            Kind::LastPosition => version.newest(&[vid()], &all),
            Kind::CarsInBox | Kind::StatisticsOfSegment | Kind::AccidentAhead => {
                version.select_with_pauses(&Selection { time: since, area: Some(self.area), ..all }, pause)
            }
            Kind::PathOfCar | Kind::PathAsOf => {
                version.select_with_pauses(&Selection { key: Some(vec![vid()]), time: since, ..all }, pause)
            }
            Kind::Balance => accounts.balances.latest().newest(&[vid()], &all),
            Kind::Expenditures => {
                accounts.expenditures.latest().newest(&[vid(), integers([self.day].into_iter())], &all)
            }
            Kind::Nearest => version.nearest_with_pauses(self.to, 5, &all, pause),
        }
    }
}
