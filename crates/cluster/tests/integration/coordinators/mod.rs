//! The three coordinators: one set of tests for all, and what only one of them can suffer.

mod conformance;
mod cut_off;
mod etcd;
mod folder;
mod gone;
mod postgres;
mod proxy;

use std::time::Duration;

use tidemill_cluster::coordinator::{Coordinator, open};

/// For calls that must be answered: nothing depends on it if all is well.
const LONG: Duration = Duration::from_secs(120);

fn connect(address: &str) -> Box<dyn Coordinator> {
    open(address, "tests", LONG).unwrap()
}
