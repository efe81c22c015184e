//! The Yahoo streaming benchmark in SQL.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_connect::generator::{YahooConfig, YahooEvents};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Int8Type, Int64Type, TimestampNanosecondType};

use crate::{Options, memory, query};

const SCRIPT: &str = "
    CREATE VIEW views AS
        SELECT ad_id, event_time FROM memory() WHERE event_type = 'view';
    SELECT window_start, campaign_id, count(*) AS views
    FROM tumble(TABLE(views), event_time, INTERVAL '10 seconds') v
    JOIN yahoo_campaigns() c ON v.ad_id = c.ad_id
    GROUP BY window_start, campaign_id";

const ROWS: usize = 8192;
/// `ad_id`, `event_type`, `event_time`
const NEEDED: [usize; 3] = [2, 4, 5];

pub(crate) fn measure(options: &Options) -> anyhow::Result<()> {
    let events = options.million_events * 1_000_000;
    let mut source = YahooEvents::new(YahooConfig { count: Some(events), ..YahooConfig::default() })?;
    source.set_projection(&NEEDED)?;
    let starts = (0..events).step_by(ROWS);
    let batches = starts.map(|first| source.range(first, ROWS.min((events - first) as usize)));
    let batches: Arc<Vec<RecordBatch>> = Arc::new(batches.collect::<Result<_, _>>()?);
    let expected = expected(&batches);
    let reading = memory::reading_time(&batches, &[0, 1, 2]);
    query::measure(&batches, Some(2), SCRIPT, options, reading, |rows| {
        let given = given(rows);
        anyhow::ensure!(given == expected, "{} windows, {} were expected", given.len(), expected.len());
        Ok(())
    })
}

/// The obvious way: (window, campaign) -> views.
fn expected(batches: &[RecordBatch]) -> BTreeMap<(i64, i64), i64> {
    let mut views = BTreeMap::new();
    for batch in batches {
        let ads = batch.column(0).as_primitive::<Int64Type>().values();
        let kinds = batch.column(1).as_dictionary::<Int8Type>();
        let names = kinds.values().as_string::<i32>();
        let times = batch.column(2).as_primitive::<TimestampNanosecondType>().values();
        for row in 0..batch.num_rows() {
            if names.value(kinds.keys().value(row) as usize) == "view" {
                let window = times[row] - times[row].rem_euclid(10_000_000_000);
                *views.entry((window, ads[row] / 10)).or_insert(0) += 1;
            }
        }
    }
    views
}

fn given(rows: &RecordBatch) -> BTreeMap<(i64, i64), i64> {
    let windows = rows.column(0).as_primitive::<TimestampNanosecondType>().values();
    let campaigns = rows.column(1).as_primitive::<Int64Type>().values();
    let views = rows.column(2).as_primitive::<Int64Type>().values();
    (0..rows.num_rows()).map(|row| ((windows[row], campaigns[row]), views[row])).collect()
}
