//! A copy of a store that is kept by its changes only.

use tidemill_store::{Follower, StoreReader};

use crate::oracle::cars::{Car, cars_of};

pub struct Followed {
    follower: Follower,
    /// The rows by what has changed, as texts, in order.
    copy: Vec<String>,
}

fn texts(cars: &[Car]) -> Vec<String> {
    let mut texts: Vec<String> = cars.iter().map(|car| format!("{car:?}")).collect();
    texts.sort();
    texts
}

impl Followed {
    pub fn begin(reader: &StoreReader) -> Followed {
        Followed { follower: Follower::new(reader), copy: Vec::new() }
    }

    /// Continues over a store that was restored: with the cycle that it has reached, and nothing else of its follower.
    pub fn continued(self, reader: &StoreReader) -> Followed {
        let follower = match self.follower.cycle() {
            Some(cycle) => Follower::after(reader, cycle),
            None => Follower::new(reader),
        };
        Followed { follower, ..self }
    }

    /// Takes all changes, and compares the copy after each cycle with the rows that the store had; whether it can continue. It
    /// cannot if it looked too late.
    pub fn look(&mut self, rows_at: impl Fn(u64) -> Vec<Car>) -> bool {
        loop {
            let before = self.follower.cycle();
            match self.follower.next_change() {
                Ok(Some(change)) => {
                    assert!(before < Some(change.cycle));
                    for passed in before.map_or(0..0, |before| before + 1..change.cycle) {
                        assert_eq!(self.copy, texts(&rows_at(passed)), "cycle {passed} is not left out");
                    }
                    let (gone, come) = (texts(&cars_of(&change.removed)), texts(&cars_of(&change.added)));
                    assert!(!gone.iter().any(|row| come.contains(row)), "what stays is no change");
                    for gone in gone {
                        let place = self.copy.iter().position(|row| *row == gone);
                        self.copy.remove(place.unwrap_or_else(|| panic!("{gone} was not there")));
                    }
                    self.copy.extend(come);
                    self.copy.sort();
                    assert_eq!(self.copy, texts(&rows_at(change.cycle)), "cycle {}", change.cycle);
                }
                Ok(None) => {
                    let newest = self.follower.reader().latest();
                    assert_eq!(self.copy, texts(&cars_of(&[newest.read().unwrap()])), "nothing is left out");
                    return true;
                }
                Err(cause) => {
                    let (oldest, _) = self.follower.reader().cycles().unwrap();
                    assert!(before.is_some_and(|cycle| cycle < oldest), "{cause}");
                    return false;
                }
            }
        }
    }
}
