//! What `SHOW FRAGMENTS` and `SHOW GATEWAYS` tell.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::driver::with_client;
use crate::support::{PATIENCE, serve};

/// The rows of a statement as texts.
async fn rows(client: &Client, statement: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(statement).await.unwrap();
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// A column of the rows, as numbers.
fn numbers(rows: &[Vec<String>], column: usize) -> Vec<u64> {
    rows.iter().map(|row| row[column].parse().unwrap()).collect()
}

/// The rows of a statement, once this holds for them.
async fn rows_when(
    client: &Client,
    statement: &str,
    is_so: impl Fn(&[Vec<String>]) -> bool,
) -> Vec<Vec<String>> {
    let begun = Instant::now();
    loop {
        let rows = rows(client, statement).await;
        if is_so(&rows) {
            return rows;
        }
        assert!(begun.elapsed() < PATIENCE, "{statement}: {rows:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn divided_views_tell_what_each_fragment_holds() {
    with_client(&serve(), async |client| {
        let view = "CREATE MATERIALIZED VIEW divided AS SELECT value FROM sequence(count => 1000)
            WITH (fragments = 3, fragment_by = 'value / 10')";
        client.batch_execute(view).await.unwrap();
        let is_complete = |rows: &[Vec<String>]| numbers(rows, 2).iter().sum::<u64>() == 1000;
        let fragments = rows_when(&client, "SHOW FRAGMENTS", is_complete).await;
        assert_eq!(numbers(&fragments, 1), [0, 1, 2]);
        assert!(numbers(&fragments, 2).iter().all(|rows| *rows > 200), "they share the rows: {fragments:?}");
        let newest = numbers(&fragments, 7);
        assert!(newest.iter().all(|cycle| *cycle == newest[0]), "{fragments:?}");
        let values = rows(&client, "SELECT value FROM divided").await;
        assert_eq!(numbers(&values, 0), (0..1000).collect::<Vec<_>>());
        let explained = rows(&client, "EXPLAIN SELECT * FROM divided WHERE value = 77").await;
        assert!(format!("{explained:?}").contains("1 of 3 fragments"), "{explained:?}");
    });
}

#[test]
fn gateways_tell_what_enters_and_how_long_its_cycles_take() {
    with_client(&serve(), async |client| {
        assert!(rows(&client, "SHOW GATEWAYS").await.is_empty());
        let script = "SET cycle_events = 10;
            CREATE MATERIALIZED VIEW counted AS SELECT value FROM sequence(count => 20000)";
        client.batch_execute(script).await.unwrap();
        // The last cycle counts a little after its rows can be read.
        let is_complete = |rows: &[Vec<String>]| rows.len() == 1 && numbers(rows, 5)[0] >= 2000;
        let [row] = rows_when(&client, "SHOW GATEWAYS", is_complete).await.try_into().unwrap();
        assert_eq!((&*row[1], &*row[2]), ("counted", "20000"));
        let number = |at: usize| row[at].parse::<f64>().unwrap_or_else(|_| panic!("column {at}: {row:?}"));
        assert!(number(3) > 0.0 && number(4) >= 160_000.0, "{row:?}");
        let (mean, p50, p99, max, mean_of_1000) = (number(6), number(7), number(8), number(9), number(10));
        assert!(p50 <= p99 && p99 <= max, "{row:?}");
        // The mean of one thousand cycles is at least that of all, up to rounding and a few cycles beyond two thousand.
        assert!(mean_of_1000 <= max && mean_of_1000 * 1.01 + 0.001 >= mean / 2.0, "{row:?}");
        assert!(number(11) >= 0.0, "{row:?}");
    });
}
