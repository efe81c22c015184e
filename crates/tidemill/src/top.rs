//! The first rows of each window by some order.

use tidemill_operators::top::{Numbering, OrderBy, Top, TopSpec, output_schema};

use crate::aggregate::WINDOW_END;
use crate::keyed::KeyedStream;
use crate::stream::Stream;

/// A column by which rows are ordered. NULLs come last.
///
/// ```
/// use tidemill::Order;
/// assert_ne!(Order::ascending("price"), Order::descending("price"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    column: String,
    descending: bool,
}

impl Order {
    /// From the smallest value to the largest.
    pub fn ascending(column: &str) -> Order {
        Order { column: column.to_owned(), descending: false }
    }

    /// From the largest value to the smallest.
    pub fn descending(column: &str) -> Order {
        Order { column: column.to_owned(), descending: true }
    }
}

impl KeyedStream {
    /// Keeps the first rows of each key in each window, by some columns; ties are in the order of arrival. The stream must
    /// have the column `window_end` of windows that were aggregated. The rows are written when event time has passed their
    /// window's end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill::aggregate::count;
    /// use tidemill::{Engine, Order, Query, Timestamp, Window, rows_of};
    ///
    /// let mut query = Query::new("busiest");
    /// let reports = query.rows::<(u32, Timestamp)>("reports", ["segment", "time"]);
    /// let reports = reports.event_time("time", Duration::from_secs(2));
    /// let busiest = reports
    ///     .key_by("segment")
    ///     .window(Window::tumbling("time", Duration::from_secs(60)))
    ///     .aggregate([count().named("cars")])
    ///     .key_by(())
    ///     .top(1, [Order::descending("cars")])
    ///     .collect("busiest", 100);
    /// let run = Engine::new().start(query)?;
    /// run.input(&reports)?.push([(1, Timestamp(0)), (2, Timestamp(1)), (2, Timestamp(2))])?;
    /// run.finish()?;
    /// assert_eq!(rows_of::<(u32,)>(&busiest.read()?, "segment")?, [(2,)]);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn top(&self, rows: usize, order: impl Into<Vec<Order>>) -> Stream {
        let stream = &self.stream;
        let name = format!("top {rows} of each window");
        if !stream.times.iter().any(|time| time == WINDOW_END) {
            return self.failed(format!(
                "{name}: the rows have no column '{WINDOW_END}' of a window of event time, so nothing says when they \
                 are complete; call it on the result of .window(...).aggregate(...)"
            ));
        }
        let order_by = |order: Order| {
            let column = stream.columns(&name, order.column.as_str())?[0];
            Some(OrderBy { column, descending: order.descending, nulls_first: false })
        };
        let order: Option<Vec<OrderBy>> = order.into().into_iter().map(order_by).collect();
        let (Some(order), Some(window_end)) = (order, stream.time_column(WINDOW_END)) else {
            return stream.clone();
        };
        let build = stream.build.borrow();
        let spec = TopSpec {
            schema: stream.schema.clone(),
            partition: self.keys.clone(),
            order,
            count: rows,
            numbering: Numbering::RowNumber,
            number_column: None,
            window_end,
            watermark: stream.watermark_of_window_end(),
            rows_max: build.keys_max_for(self.keys.len()),
            late: build.late.clone(),
        };
        drop(build);
        if let Err(cause) = Top::new(spec.clone()) {
            return self.failed(format!("{name}: {cause}"));
        }
        let top = self.operator(&name, &output_schema(&spec), move |_| {
            Box::new(Top::new(spec.clone()).expect("checked when it was planned"))
        });
        Stream { times: stream.times.clone(), window_end_delay_ns: stream.window_end_delay_ns, ..top }
    }
}
