//! The definitions of the views that the server keeps.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::{SinkExt, pin_mut};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::reports::{DAYS, LANES, paid_on};

/// Where reports are sent to, in the server's folder.
pub const SOCKET: &str = "reports.sock";
/// A file with which reports are joined.
pub const LANES_FILE: &str = "lanes.csv";
/// Sessions of those who look, and of clients that nobody wants.
pub const OTHER_SESSIONS: usize = 8;
/// About what the view of all reports takes for one.
pub const ROW_BYTES: u64 = 62;
/// Nothing takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sources and views: all reports that fit, the last one of each car, and accounts.
pub async fn define(owner: &Client, stored_bytes: u64) -> anyhow::Result<()> {
    let definitions = format!(
        "CREATE SOURCE reports (vid BIGINT NOT NULL, at TIMESTAMP NOT NULL, x DOUBLE, y DOUBLE, speed DOUBLE,
             lane BIGINT, WATERMARK FOR at AS at)
             WITH (connector = 'unix', listen = '{SOCKET}', format = 'csv', header = false, timestamp_unit = 'us',
                 ordered = true);
         CREATE MATERIALIZED VIEW recent AS SELECT vid, at, x, y, speed, lane FROM reports
             WITH (retain_bytes = '{stored_bytes} B', key = 'vid', point = 'x, y');
         CREATE MATERIALIZED VIEW positions PRIMARY KEY (vid) AS SELECT vid, at, x, y, speed, lane FROM reports;
         CREATE SOURCE tolls (vid BIGINT NOT NULL, day BIGINT NOT NULL, toll BIGINT) WITH (connector = 'push');
         CREATE MATERIALIZED VIEW balances AS
             SELECT vid, CAST(sum(toll) AS BIGINT) AS balance FROM tolls GROUP BY vid;
         CREATE MATERIALIZED VIEW expenditures AS
             SELECT vid, day, CAST(sum(toll) AS BIGINT) AS paid FROM tolls GROUP BY vid, day"
    );
    Ok(owner.batch_execute(&definitions).await?)
}

/// What each car has paid on each day.
pub async fn fill_accounts(owner: &Client, cars: u64) -> anyhow::Result<()> {
    let sink = owner.copy_in("COPY tolls FROM STDIN WITH (FORMAT csv)").await?;
    pin_mut!(sink);
    for first in (0..cars).step_by(1000) {
        let lines = (first..cars.min(first + 1000)).flat_map(|vid| (0..DAYS).map(move |day| (vid, day)));
        let text: String = lines.map(|(vid, day)| format!("{vid},{day},{}\n", paid_on(vid, day))).collect();
        sink.send(std::io::Cursor::new(text.into_bytes())).await?;
    }
    let copied = sink.finish().await?;
    ensure!(copied == cars * DAYS, "{copied} tolls were copied");
    for (view, rows) in [("balances", cars), ("expenditures", cars * DAYS)] {
        wait_for(owner, &format!("SELECT count(*) AS n FROM {view}"), rows).await?;
    }
    Ok(())
}

/// The names of lanes, as a file.
pub fn lanes() -> String {
    let lines = (0..LANES).map(|lane| format!("{lane},lane {lane}\n"));
    "lane,name\n".to_owned() + &lines.collect::<String>()
}

/// Waits until both views of reports have as many as were sent.
pub async fn wait_for_rows(owner: &Client, sent: u64) -> anyhow::Result<()> {
    let last = sent.saturating_sub(1);
    for view in ["recent", "positions"] {
        let latest =
            format!("SELECT CAST(round(extract(epoch FROM max(at)) * 1000000) AS BIGINT) AS n FROM {view}");
        wait_for(owner, &latest, last).await?;
    }
    Ok(())
}

async fn wait_for(owner: &Client, query: &str, expected: u64) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let found: Option<i64> = owner.query_one(query, &[]).await?.get(0);
        if found == i64::try_from(expected).ok() {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{query} gives {found:?}, and not {expected}");
        let states = states(owner).await?;
        ensure!(states.iter().all(|state| state == "running"), "the views are {}", states.join(", "));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The states of all queries.
pub async fn states(owner: &Client) -> anyhow::Result<Vec<String>> {
    let messages = owner.simple_query("SHOW QUERIES").await?;
    let state = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(1).map(str::to_owned),
        _ => None,
    };
    Ok(messages.iter().filter_map(state).collect())
}
