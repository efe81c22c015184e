//! The questions that clients ask.

use std::time::SystemTime;

use tokio_postgres::types::{ToSql, Type};

use crate::reports::{DAYS, EXPRESSWAYS, LENGTH, SEGMENT, mixed, time_of};
use crate::setup::LANES_FILE;

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    LastPosition,
    CarsInBox,
    PathOfCar,
    StatisticsOfSegment,
    Balance,
    Expenditures,
    AccidentAhead,
    JoinWithFile,
    PathAsOf,
    Nearest,
}

/// All kinds, as the specification of the store numbers them.
pub const KINDS: [(Kind, &str); 10] = [
    (Kind::LastPosition, "Q1 last position of a car"),
    (Kind::CarsInBox, "Q2 cars in a box now"),
    (Kind::PathOfCar, "Q3 path of a car"),
    (Kind::StatisticsOfSegment, "Q4 statistics of a segment"),
    (Kind::Balance, "Q5 balance of an account"),
    (Kind::Expenditures, "Q6 expenditures of a day"),
    (Kind::AccidentAhead, "Q7 cars before an accident"),
    (Kind::JoinWithFile, "Q8 join of reports and a file"),
    (Kind::PathAsOf, "Q9 path as of an earlier cycle"),
    (Kind::Nearest, "   5 nearest reports"),
];

/// A parameter of a statement.
pub type Parameter = Box<dyn ToSql + Send + Sync>;

/// A question with its constants.
#[derive(Clone, Debug)]
pub struct Question {
    pub kind: Kind,
    pub vid: u64,
    /// Reports after this one count.
    pub after: u64,
    /// From and to, both included.
    pub x: (u64, u64),
    pub y: (u64, u64),
    pub day: u64,
    /// Of a path as of an earlier cycle.
    pub cycle: u64,
}

impl Question {
    /// The question with this number, when so many reports were sent. "Now" is the last turn of all cars.
    pub fn new(kind: Kind, number: u64, sent: u64, cars: u64) -> Question {
        let random = mixed(number);
        let (width, turns) = match kind {
            Kind::StatisticsOfSegment => (SEGMENT, 50),
            Kind::AccidentAhead => (5 * SEGMENT, 1),
            Kind::PathOfCar | Kind::PathAsOf => (0, 20),
            _ => (SEGMENT, 1),
        };
        let (x, y) = (mixed(random) % 100 * (LENGTH / 100), random % EXPRESSWAYS * 1000);
        Question {
            kind,
            vid: mixed(random ^ 5) % cars,
            after: sent.saturating_sub(turns * cars + 1),
            x: (x, x + width),
            y: (y, y + 50),
            day: random % DAYS,
            cycle: 0,
        }
    }

    /// Its text. It is the same for all questions of a kind, but for that of an earlier cycle.
    pub fn text(&self) -> String {
        let columns = "vid, at, x, y, speed, lane";
        let in_box = "x BETWEEN $1 AND $2 AND y BETWEEN $3 AND $4 AND at > $5";
        match self.kind {
            Kind::LastPosition => format!("SELECT {columns} FROM positions WHERE vid = $1"),
            Kind::CarsInBox | Kind::AccidentAhead => format!("SELECT {columns} FROM recent WHERE {in_box}"),
            Kind::PathOfCar => format!("SELECT {columns} FROM recent WHERE vid = $1 AND at > $2"),
            Kind::PathAsOf => {
                format!("SELECT {columns} FROM recent AS OF CYCLE {} WHERE vid = $1 AND at > $2", self.cycle)
            }
            Kind::StatisticsOfSegment => {
                format!("SELECT count(*) AS reports, avg(speed) AS speed FROM recent WHERE {in_box}")
            }
            Kind::Balance => "SELECT balance FROM balances WHERE vid = $1".to_owned(),
            Kind::Expenditures => "SELECT paid FROM expenditures WHERE vid = $1 AND day = $2".to_owned(),
            Kind::JoinWithFile => format!(
                "SELECT name, count(*) AS reports FROM recent JOIN '{LANES_FILE}' AS lanes ON recent.lane = lanes.lane \
                 WHERE {in_box} GROUP BY name ORDER BY name"
            ),
            Kind::Nearest => {
                format!("SELECT {columns} FROM recent ORDER BY st_distance(point, st_point($1, $2)) LIMIT 5")
            }
        }
    }

    /// Its parameters, with their types.
    pub fn parameters(&self) -> Vec<(Parameter, Type)> {
        let integer = |value: u64| -> (Parameter, Type) { (Box::new(value as i64), Type::INT8) };
        let float = |value: u64| -> (Parameter, Type) { (Box::new(value as f64), Type::FLOAT8) };
        let time = |number: u64| -> (Parameter, Type) {
            let time: SystemTime = time_of(number);
            (Box::new(time), Type::TIMESTAMP)
        };
        match self.kind {
            Kind::LastPosition | Kind::Balance => vec![integer(self.vid)],
            Kind::Expenditures => vec![integer(self.vid), integer(self.day)],
            Kind::PathOfCar | Kind::PathAsOf => vec![integer(self.vid), time(self.after)],
            Kind::Nearest => vec![float(self.x.0), float(self.y.0)],
            Kind::CarsInBox | Kind::AccidentAhead | Kind::StatisticsOfSegment | Kind::JoinWithFile => {
                vec![float(self.x.0), float(self.x.1), float(self.y.0), float(self.y.1), time(self.after)]
            }
        }
    }
}
