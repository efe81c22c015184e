//! What many small views cost a server that has nothing to do: threads, by their names.
#![cfg(all(target_os = "linux", feature = "sql"))]

use std::collections::BTreeMap;
use std::fs;

use crate::support::child::wait_until;
use crate::support::served::{Served, has_psql};
use crate::support::*;

const VIEWS: usize = 20;

/// How many threads of each name a process has.
fn threads(process: u32) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten() {
        // It may have ended meanwhile.
        if let Ok(name) = fs::read_to_string(task.path().join("comm")) {
            *names.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    names
}

#[test]
fn a_view_has_its_workers_and_what_waits_for_disks_and_nothing_else() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let server = Served::start(folder.path());
    let source = |name: &str, options: &str| {
        server.psql(&format!("CREATE SOURCE {name} (k BIGINT, v DOUBLE) WITH (connector = 'push'{options});"))
    };
    let told = source("quick", "") + &source("kept", ", durable = true");
    assert_eq!(told.matches("CREATE SOURCE").count(), 2, "{told}");
    let before = threads(server.process());
    let views = |of: &str| {
        let view = |number: usize| {
            format!("CREATE MATERIALIZED VIEW {of}{number} AS SELECT k, count(*) AS n FROM {of} GROUP BY k;")
        };
        let told = server.psql(&format!("SET workers = 1; {}", (0..VIEWS).map(view).collect::<String>()));
        assert_eq!(told.matches("CREATE MATERIALIZED VIEW").count(), VIEWS, "{told}");
    };
    views("quick");
    let added = |names: &BTreeMap<String, usize>| {
        let is_of_clients = |name: &str| name.ends_with("clients") || name == "start of a que";
        let mut added: BTreeMap<String, usize> = names.clone();
        for (name, count) in &before {
            *added.entry(name.clone()).or_default() -= count.min(&added[name]).to_owned();
        }
        added.retain(|name, count| *count > 0 && !is_of_clients(name));
        added
    };
    let expected = [("timely:work-0", VIEWS), ("watch queries", 1), ("feed", 1)];
    let expected: BTreeMap<String, usize> = expected.map(|(name, count)| (name.to_owned(), count)).into();
    wait_until("what started the views has ended", || added(&threads(server.process())) == expected);
    views("kept");
    wait_until("a durable view has two threads more", || {
        let names = added(&threads(server.process()));
        let of_views: usize = names.values().sum();
        names["watch queries"] == 1 && names["timely:work-0"] == 2 * VIEWS && of_views <= 4 * VIEWS + 6
    });
}
