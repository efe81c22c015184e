//! Processes: parts of a query that each run in one place, and the choice of that place. On one machine a place is a
//! worker.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::PlanError;

/// A part of a query with its own place, which holds all partitions of its operators.
///
/// No result depends on the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProcessPlan {
    /// Its name, for people.
    pub name: String,
    /// Where it may run, in order of preference; empty: anywhere.
    pub places: Vec<PlaceChoice>,
    /// Whether it may run only there. Otherwise it runs elsewhere if none of the places exists.
    pub required: bool,
}

/// A step of an allocation sequence. The first step that has a place here decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceChoice {
    /// This place.
    Place(u32),
    /// Any place of a group: the one with the fewest processes so far.
    AnyOf(PlaceGroup),
    /// The next place of a group, in turn with all processes that use this choice.
    NextOf(PlaceGroup),
    /// A place of the next one of a group's groups, in turn: the place with the fewest processes so far.
    EachOf(PlaceGroup),
}

/// A named group of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceGroup {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<PlaceMember>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceMember {
    /// A place.
    Place(u32),
    /// All places of another group.
    Group(PlaceGroup),
}

impl StreamProcessPlan {
    /// A process that may run anywhere.
    pub fn new(name: impl Into<String>) -> Self {
        StreamProcessPlan { name: name.into(), places: Vec::new(), required: false }
    }

    /// Prefers these places.
    #[must_use]
    pub fn prefer(self, places: Vec<PlaceChoice>) -> Self {
        StreamProcessPlan { places, required: false, ..self }
    }

    /// Runs in these places only.
    #[must_use]
    pub fn at(self, places: Vec<PlaceChoice>) -> Self {
        StreamProcessPlan { places, required: true, ..self }
    }
}

impl PlaceMember {
    fn places(&self) -> Vec<u32> {
        match self {
            PlaceMember::Place(place) => vec![*place],
            PlaceMember::Group(group) => group.places(),
        }
    }
}

impl PlaceGroup {
    /// Its places, and those of the groups in it.
    ///
    /// ```
    /// use tidemill_plan::{PlaceGroup, PlaceMember};
    /// let rack = PlaceGroup { name: "rack".into(), members: vec![PlaceMember::Place(2), PlaceMember::Place(3)] };
    /// let room = PlaceGroup { name: "room".into(), members: vec![PlaceMember::Place(7), PlaceMember::Group(rack)] };
    /// assert_eq!(room.places(), [7, 2, 3]);
    /// ```
    pub fn places(&self) -> Vec<u32> {
        self.members.iter().flat_map(PlaceMember::places).collect()
    }
}

/// The place of each process, given the number of places: a function of the processes and of nothing else.
///
/// # Errors
/// If a process is not allowed any of them.
///
/// ```
/// use tidemill_plan::{PlaceChoice, PlaceGroup, PlaceMember, StreamProcessPlan, places_of};
/// let members = vec![PlaceMember::Place(1), PlaceMember::Place(2), PlaceMember::Place(9)];
/// let group = PlaceGroup { name: "back".into(), members };
/// let next = |name: &str| StreamProcessPlan::new(name).at(vec![PlaceChoice::NextOf(group.clone())]);
/// assert_eq!(places_of(&[next("a"), next("b"), next("c"), StreamProcessPlan::new("d")], 4).unwrap(), [1, 2, 1, 0]);
/// assert!(places_of(&[StreamProcessPlan::new("e").at(vec![PlaceChoice::Place(4)])], 4).is_err());
/// ```
pub fn places_of(processes: &[StreamProcessPlan], places: u32) -> Result<Vec<u32>, PlanError> {
    let mut allocator = Allocator { taken: vec![0; places.max(1) as usize], turns: BTreeMap::new() };
    processes.iter().map(|process| allocator.place(process)).collect()
}

/// Assigns places.
struct Allocator<'a> {
    /// How many processes each place has.
    taken: Vec<u32>,
    /// How often each choice in turn was made.
    turns: BTreeMap<&'a str, usize>,
}

impl<'a> Allocator<'a> {
    fn place(&mut self, process: &'a StreamProcessPlan) -> Result<u32, PlanError> {
        let chosen = process.places.iter().find_map(|choice| self.choose(choice));
        let place = match chosen {
            Some(place) => place,
            None if process.required => return Err(no_place(process, self.taken.len())),
            None => self.freest(0..self.taken.len() as u32).unwrap_or(0),
        };
        self.taken[place as usize] += 1;
        Ok(place)
    }

    fn choose(&mut self, choice: &'a PlaceChoice) -> Option<u32> {
        match choice {
            PlaceChoice::Place(place) => self.is_there(*place).then_some(*place),
            PlaceChoice::AnyOf(group) => self.freest(group.places()),
            PlaceChoice::NextOf(group) => self.next_of(&group.name, &self.here(group.places())),
            PlaceChoice::EachOf(group) => {
                let members = group.members.iter().map(|member| self.here(member.places()));
                let members: Vec<Vec<u32>> = members.filter(|places| !places.is_empty()).collect();
                let places = self.next_of(&group.name, &members)?;
                self.freest(places)
            }
        }
    }

    fn is_there(&self, place: u32) -> bool {
        (place as usize) < self.taken.len()
    }

    fn here(&self, mut places: Vec<u32>) -> Vec<u32> {
        places.retain(|place| self.is_there(*place));
        places
    }

    /// The place with the fewest processes; if there are several, the first.
    fn freest(&self, places: impl IntoIterator<Item = u32>) -> Option<u32> {
        let here = places.into_iter().filter(|place| self.is_there(*place));
        here.min_by_key(|place| self.taken[*place as usize])
    }

    /// The members of a group, in turn.
    fn next_of<T: Clone>(&mut self, group: &'a str, members: &[T]) -> Option<T> {
        let turn = self.turns.entry(group).or_default();
        let member = members.get(*turn % members.len().max(1))?.clone();
        *turn += 1;
        Some(member)
    }
}

fn no_place(process: &StreamProcessPlan, places: usize) -> PlanError {
    let asked: Vec<String> = process.places.iter().map(ToString::to_string).collect();
    PlanError::NoPlace { process: process.name.clone(), asked: asked.join(", "), places }
}

impl fmt::Display for PlaceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |group: &PlaceGroup| {
            let places: Vec<String> = group.places().iter().map(ToString::to_string).collect();
            format!("{} ({})", group.name, places.join(", "))
        };
        match self {
            PlaceChoice::Place(place) => write!(formatter, "{place}"),
            PlaceChoice::AnyOf(group) => write!(formatter, "any of {}", listed(group)),
            PlaceChoice::NextOf(group) => write!(formatter, "the next of {}", listed(group)),
            PlaceChoice::EachOf(group) => write!(formatter, "each group of {}", listed(group)),
        }
    }
}
