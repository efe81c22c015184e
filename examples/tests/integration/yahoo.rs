//! `yahoo.sql` counts what an obvious computation over the same events counts.

use crate::sql;

use std::collections::BTreeMap;

use tidemill_connect::generator::{YahooConfig, YahooEvents};
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Int64Type, TimestampNanosecondType};
use tidemill_engine::arrow::schema::DataType;

/// Enough for two whole windows and a part of a third: the generator makes a million per second of event time.
const EVENTS: u64 = 21_000_000;
const WINDOW_NS: i64 = 10_000_000_000;
/// Advertisement `n` belongs to campaign `n / 10`.
const ADS_PER_CAMPAIGN: i64 = 10;

/// (Start of the window, campaign) to the number of views.
type Counts = BTreeMap<(i64, i64), i64>;

fn expected() -> Counts {
    let mut events = YahooEvents::new(YahooConfig::default()).expect("a generator");
    // ad_id, event_type, event_time
    events.set_projection(&[2, 4, 5]).expect("columns of the generator");
    let mut counts = Counts::new();
    let batch = 100_000;
    for first in (0..EVENTS).step_by(batch) {
        let rows = events.range(first, batch).expect("events");
        let (ads, times) = (
            rows.column(0).as_primitive::<Int64Type>(),
            rows.column(2).as_primitive::<TimestampNanosecondType>(),
        );
        let types = rows.column(1).as_any_dictionary();
        let names = types.values().as_string::<i32>();
        let views: Vec<bool> =
            types.normalized_keys().iter().map(|key| names.value(*key) == "view").collect();
        for row in (0..rows.num_rows()).filter(|row| views[*row]) {
            let window = times.value(row) / WINDOW_NS * WINDOW_NS;
            *counts.entry((window, ads.value(row) / ADS_PER_CAMPAIGN)).or_default() += 1;
        }
    }
    counts
}

fn counted(workers: usize) -> Counts {
    let script = sql::script("yahoo.sql");
    let script = sql::replaced(&script, "count => 25000000", &format!("count => {EVENTS}"));
    let mut session = sql::planner(&script, workers);
    let mut counts = Counts::new();
    for rows in sql::rows(&mut session, "SELECT window_start, campaign_id, views FROM campaign_counts") {
        assert_eq!(rows.schema().field(2).data_type(), &DataType::Int64);
        let windows = rows.column(0).as_primitive::<TimestampNanosecondType>();
        let (campaigns, views) =
            (rows.column(1).as_primitive::<Int64Type>(), rows.column(2).as_primitive::<Int64Type>());
        for row in 0..rows.num_rows() {
            let before = counts.insert((windows.value(row), campaigns.value(row)), views.value(row));
            assert_eq!(before, None, "a window was given out twice");
        }
    }
    counts
}

#[test]
fn the_views_of_each_campaign_are_counted() {
    let expected = expected();
    assert_eq!(expected.len(), 3 * 100, "three windows of 100 campaigns");
    for workers in [1, 2] {
        assert_eq!(counted(workers), expected, "{workers} workers");
    }
}

#[test]
fn the_script_has_its_sink() {
    let script = sql::replaced(&sql::script("yahoo.sql"), "count => 25000000", "count => 1000");
    let script = sql::replaced(&script, "connector = 'stdout', format = 'csv'", "connector = 'blackhole'");
    sql::run_sinks(&sql::planner(&script, 1));
}
