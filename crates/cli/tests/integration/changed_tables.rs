//! `tidemill serve` is killed at any moment while clients change tables in transactions: after a restart, each transaction that was answered
//! is there, and each transaction is there as a whole or not at all. psql is the client, as in `serve_durable`.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::folder_with;
use crate::support::served::{Served, has_psql, psql};

const ACCOUNTS: u64 = 5;
const WRITERS: u64 = 2;

/// Moves money until the server is gone; returns the numbers of the transactions that were answered.
fn write(port: &str, writer: u64, round: u64, (is_over, count): (&AtomicBool, &AtomicU64)) -> Vec<u64> {
    let mut answered = Vec::new();
    for step in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let number = (round * 10_000 + step) * WRITERS + writer;
        let (from, to, amount) = (number % ACCOUNTS, (number / 3 + 1) % ACCOUNTS, 1 + number % 7);
        let text = format!(
            "BEGIN; UPDATE accounts SET balance = balance - {amount} WHERE id = {from}; \
             UPDATE accounts SET balance = balance + {amount} WHERE id = {to}; \
             INSERT INTO moved VALUES ({number}, {from}, {to}, {amount}); {}",
            if step % 5 == 4 { "ROLLBACK" } else { "COMMIT" }
        );
        if psql(port, &text).ends_with("INSERT 0 1\nCOMMIT\n") {
            answered.push(number);
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
    answered
}

#[test]
fn transactions_of_a_killed_server_are_there_as_a_whole_or_not_at_all() {
    if !has_psql() {
        return;
    }
    // By hand: TIDEMILL_KILLS=100.
    let kills = std::env::var("TIDEMILL_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let made = server.psql(
        "SET snapshot_every = '200 ms';
        CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL DEFAULT 100);
        CREATE TABLE moved (n BIGINT, source BIGINT, target BIGINT, amount BIGINT);
        INSERT INTO accounts (id) VALUES (0), (1), (2), (3), (4);
        CREATE MATERIALIZED VIEW balances AS SELECT a.id, a.balance,
            100 + coalesce((SELECT sum(m.amount) FROM moved m WHERE m.target = a.id), 0)
                - coalesce((SELECT sum(m.amount) FROM moved m WHERE m.source = a.id), 0) AS computed FROM accounts a;
        CREATE MATERIALIZED VIEW whole AS SELECT sum(balance) AS total FROM accounts",
    );
    assert!(made.ends_with("CREATE MATERIALIZED VIEW\n"), "{made}");
    let mut answered = BTreeSet::new();
    for round in 0..=kills {
        let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (port, is_over) = (server.port.clone(), Arc::clone(&is_over));
                let count = Arc::clone(&count);
                thread::spawn(move || write(&port, writer, round, (&is_over, &count)))
            })
            .collect();
        wait_until("transactions are answered", || count.load(Ordering::SeqCst) >= 5);
        thread::sleep(Duration::from_millis(round * 137 % 300));
        server.kill();
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| answered.extend(writer.join().unwrap()));
        server = Served::start(folder);
        // The first change reads the tables as they are after the restart.
        assert_eq!(server.psql("UPDATE accounts SET balance = balance WHERE id = 0"), "UPDATE 1\n");
        let found = server.psql("SELECT n FROM moved");
        let found: Vec<u64> = found.lines().map(|line| line.parse().expect(line)).collect();
        let there: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(there.len(), found.len(), "each transaction once");
        assert!(answered.is_subset(&there), "missing: {:?}", answered.difference(&there));
        let mut expected = [100_i64; ACCOUNTS as usize];
        for number in &there {
            let amount = (1 + number % 7) as i64;
            expected[(number % ACCOUNTS) as usize] -= amount;
            expected[((number / 3 + 1) % ACCOUNTS) as usize] += amount;
        }
        let rows = |computed: bool| -> String {
            let row = |(id, balance): (usize, &i64)| {
                if computed { format!("{id}|{balance}|{balance}\n") } else { format!("{id}|{balance}\n") }
            };
            expected.iter().enumerate().map(row).collect()
        };
        assert_eq!(server.psql("SELECT id, balance FROM accounts ORDER BY id"), rows(false), "round {round}");
        // A change of this session makes its query wait for the views.
        let text = "UPDATE accounts SET balance = balance WHERE id = 0; SELECT * FROM balances ORDER BY id";
        assert_eq!(server.psql(text), format!("UPDATE 1\n{}", rows(true)), "round {round}");
        assert_eq!(server.psql("SELECT total FROM whole"), format!("{}\n", 100 * ACCOUNTS));
    }
    assert!(answered.len() as u64 > kills, "transactions were answered");
    let queries = server.psql("SHOW QUERIES");
    assert!(queries.lines().all(|line| line.split('|').nth(1) == Some("running")), "{queries}");
    server.stop();
}
