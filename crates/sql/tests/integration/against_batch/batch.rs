//! The answer of DataFusion to the same query over the same rows without the late ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::input::{Input, MS, Row, dimension_batch, stream_batch};

/// The rows of a query.
pub fn answer(sql: &str, input: &Input) -> RecordBatch {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    runtime.block_on(async {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        for (name, stream) in [("a", &input.a), ("b", &input.b)] {
            let rows = stream.in_time();
            register(&context, name, stream_batch(&rows));
            register(&context, &format!("session_{name}"), with_sessions(&rows, input.gap_ms, |_| ()));
            let by_key = with_sessions(&rows, input.gap_ms, |row| Some(row.key));
            register(&context, &format!("session_by_key_{name}"), by_key);
            register(&context, &format!("starts_{name}"), starts(&rows, input));
            for view in views(name, input) {
                context.sql(&view).await.unwrap_or_else(|error| panic!("{error}\n{view}"));
            }
        }
        register(&context, "dimension", dimension_batch(input));
        let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let rows = frame.collect().await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
        let schema = rows.first().map_or(schema, RecordBatch::schema);
        concat_batches(&schema, &rows).expect("all rows have the same columns")
    })
}

fn register(context: &SessionContext, name: &str, rows: RecordBatch) {
    context.register_batch(name, rows).expect("the name is new");
}

/// Windows of fixed size, and rows with their numbers in the order of arrival, as joins and functions of DataFusion.
fn views(name: &str, input: &Input) -> [String; 3] {
    let size_ms = input.slide_ms * input.slides;
    let size = format!("INTERVAL '{size_ms} milliseconds'");
    let epoch = "TIMESTAMP '1970-01-01T00:00:00'";
    [
        format!(
            "CREATE VIEW tumble_{name} AS SELECT *, date_bin({size}, at, {epoch}) AS window_start,
                 date_bin({size}, at, {epoch}) + {size} AS window_end FROM {name}"
        ),
        format!(
            "CREATE VIEW hop_{name} AS SELECT r.*, s.start AS window_start, s.start + {size} AS window_end
                 FROM {name} r JOIN starts_{name} s ON r.at >= s.start AND r.at < s.start + {size}"
        ),
        format!(
            "CREATE VIEW numbered_{name} AS SELECT *,
                 CAST(ROW_NUMBER() OVER (ORDER BY id) AS BIGINT) - 1 AS n,
                 CAST(ROW_NUMBER() OVER (PARTITION BY key ORDER BY id) AS BIGINT) - 1 AS of_key,
                 CAST(ROW_NUMBER() OVER (PARTITION BY key, name ORDER BY id) AS BIGINT) - 1 AS of_two FROM {name}"
        ),
    ]
}

fn time_field(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Nanosecond, None), true)
}

/// The starts of all windows that could have a row, each a multiple of the slide.
fn starts(rows: &[(usize, Row)], input: &Input) -> RecordBatch {
    let times = || rows.iter().filter_map(|(_, row)| row.at_ms);
    let least = times().min().unwrap_or(0).div_euclid(input.slide_ms) - input.slides;
    let most = times().max().unwrap_or(0).div_euclid(input.slide_ms) + 1;
    let starts = (least..=most).map(|slide| slide * input.slide_ms * MS);
    let starts: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(starts));
    let schema = Schema::new(vec![time_field("start")]);
    RecordBatch::try_new(Arc::new(schema), vec![starts]).expect("there is one column")
}

/// The rows with the bounds of their sessions among the rows of the same group. A row belongs to the session before it
/// if that one's last row is at most the gap away.
fn with_sessions<K: Ord>(rows: &[(usize, Row)], gap_ms: i64, group: impl Fn(&Row) -> K) -> RecordBatch {
    let mut groups: BTreeMap<K, Vec<(usize, Row)>> = BTreeMap::new();
    for row in rows {
        groups.entry(group(&row.1)).or_default().push(row.clone());
    }
    let (mut sorted, mut bounds) = (Vec::new(), Vec::new());
    for mut rows in groups.into_values() {
        rows.sort_by_key(|(_, row)| row.at_ms);
        let at_ms: Vec<i64> = rows.iter().filter_map(|(_, row)| row.at_ms).collect();
        for session in at_ms.chunk_by(|before, after| after - before <= gap_ms) {
            let bound = (session[0] * MS, (session[session.len() - 1] + gap_ms) * MS);
            bounds.extend(std::iter::repeat_n(bound, session.len()));
        }
        sorted.extend(rows);
    }
    let rows = stream_batch(&sorted);
    let fields = rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    let fields = [fields, vec![time_field("window_start"), time_field("window_end")]].concat();
    let start: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values(bounds.iter().map(|bound| bound.0)));
    let end: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values(bounds.iter().map(|bound| bound.1)));
    let columns = [rows.columns().to_vec(), vec![start, end]].concat();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("the columns are those of the schema")
}
