//! `yahoo_events`: the ad events of the Yahoo Streaming Benchmark.
//!
//! Columns and distributions are those of the benchmark's own generator, with integers instead of UUIDs and, on
//! request, event times that are out of order. The random numbers of event `n` depend only on the seed and on `n`. A
//! column is generated only if it is wanted.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Progress, Source};

use super::pace::{EventTimes, Pace};

/// The values of `ad_type`, with equal frequency.
pub const AD_TYPES: [&str; 5] = ["banner", "modal", "sponsored-search", "mail", "mobile"];
/// The values of `event_type`, with equal frequency.
pub const EVENT_TYPES: [&str; 3] = ["view", "click", "purchase"];
/// The value of `ip_address`: always the same, as in the benchmark.
pub const IP_ADDRESSES: [&str; 1] = ["1.2.3.4"];

/// The settings of [`YahooEvents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YahooConfig {
    /// Events per second of real time and of event time; `None`: as fast as possible, with a million per
    /// second of event time.
    pub rate: Option<u64>,
    /// How many events; `None`: endless.
    pub count: Option<u64>,
    /// Number of campaigns, at least 1.
    pub campaigns: u32,
    /// Number of ads of each campaign, at least 1. `ad_id` is a number below the product of the two.
    pub ads_per_campaign: u32,
    /// Number of users, at least 1. `user_id` is a number below it.
    pub users: u32,
    /// Number of pages, at least 1. `page_id` is a number below it.
    pub pages: u32,
    /// Selects one of the possible streams.
    pub seed: u64,
    /// Each event's time is between 0 and this many milliseconds (uniformly distributed) before the time that its
    /// position in the stream would give it.
    pub out_of_order_ms: u32,
    /// Event time of the first event, nanoseconds since 1970.
    pub start_time_ns: i64,
}

impl Default for YahooConfig {
    /// The benchmark's 100 campaigns of 10 ads, 100 users and 100 pages; without end, in order, from 1970 on.
    fn default() -> Self {
        YahooConfig {
            rate: None,
            count: None,
            campaigns: 100,
            ads_per_campaign: 10,
            users: 100,
            pages: 100,
            seed: 1,
            out_of_order_ms: 0,
            start_time_ns: 0,
        }
    }
}

/// All columns of [`YahooEvents`]: `user_id`, `page_id`, `ad_id` BIGINT; `ad_type`, `event_type` VARCHAR;
/// `event_time` TIMESTAMP in nanoseconds; `ip_address` VARCHAR. The strings are dictionaries with 8-bit keys.
pub fn yahoo_events_schema() -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), false);
    Arc::new(Schema::new(vec![
        field("user_id", &DataType::Int64),
        field("page_id", &DataType::Int64),
        field("ad_id", &DataType::Int64),
        field("ad_type", &text),
        field("event_type", &text),
        field("event_time", &DataType::Timestamp(TimeUnit::Nanosecond, None)),
        field("ip_address", &text),
    ]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    UserId,
    PageId,
    AdId,
    AdType,
    EventType,
    EventTime,
    IpAddress,
}

impl Column {
    /// In the order of [`yahoo_events_schema`].
    const ALL: [Column; 7] = [
        Column::UserId,
        Column::PageId,
        Column::AdId,
        Column::AdType,
        Column::EventType,
        Column::EventTime,
        Column::IpAddress,
    ];
}

/// The number of ads, if it is neither zero nor too large.
pub(super) fn check_ads(campaigns: u32, ads_per_campaign: u32) -> Result<u32, Cause> {
    campaigns.checked_mul(ads_per_campaign).filter(|ads| *ads > 0).ok_or_else(|| {
        Cause::user(format!(
            "campaigns = {campaigns}, ads_per_campaign = {ads_per_campaign}: choose 1 to {} ads in all",
            u32::MAX
        ))
    })
}

/// Views of, clicks on and purchases after ads.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::generator::{YahooConfig, YahooEvents};
/// use tidemill_core::source::{Polled, Source};
///
/// let mut events = YahooEvents::new(YahooConfig { count: Some(10_000), ..YahooConfig::default() })?;
/// events.set_projection(&[2, 4, 5])?; // ad_id, event_type, event_time
/// let mut total = 0;
/// while let Polled::Rows(rows) = events.poll(Duration::ZERO)? {
///     assert_eq!(rows.schema().field(0).name(), "ad_id");
///     total += rows.num_rows();
/// }
/// assert_eq!(total, 10_000);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Debug)]
pub struct YahooEvents {
    config: YahooConfig,
    schema: SchemaRef,
    columns: Vec<Column>,
    pace: Pace,
    times: EventTimes,
    random: EventRandom,
    ads: u32,
    ad_types: ArrayRef,
    event_types: ArrayRef,
    ip_addresses: ArrayRef,
}

impl YahooEvents {
    /// A stream before its first event, with all columns.
    ///
    /// # Errors
    /// [`Cause::user`] if a number is out of range.
    pub fn new(config: YahooConfig) -> Result<YahooEvents, Cause> {
        let ads = check_ads(config.campaigns, config.ads_per_campaign)?;
        for (name, given) in [("users", config.users), ("pages", config.pages)] {
            if given == 0 {
                return Err(Cause::user(format!("{name} = 0: choose at least 1")));
            }
        }
        let times = EventTimes::new(config.start_time_ns, config.rate)?;
        if let Some(last) = config.count.and_then(|count| count.checked_sub(1)) {
            times.append(last, 1, &mut Vec::new())?;
        }
        let out_of_order_ns = i64::from(config.out_of_order_ms) * 1_000_000;
        if config.start_time_ns.checked_sub(out_of_order_ns).is_none() {
            let text = "start time: the event times begin before the year 1677; use a later start time";
            return Err(Cause::user(text.to_owned()));
        }
        Ok(YahooEvents {
            config,
            schema: yahoo_events_schema(),
            columns: Column::ALL.to_vec(),
            pace: Pace::new(config.rate)?,
            times,
            random: EventRandom::new(config.seed),
            ads,
            ad_types: texts(&AD_TYPES),
            event_types: texts(&EVENT_TYPES),
            ip_addresses: texts(&IP_ADDRESSES),
        })
    }

    /// From now on generates only these columns, in this order. The numbers are those of [`yahoo_events_schema`],
    /// regardless of earlier calls. An empty list is fine: rows can be counted without columns.
    ///
    /// # Errors
    /// [`Cause::bug`] if a number has no column.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        let schema = yahoo_events_schema()
            .project(columns)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        self.columns = columns.iter().map(|column| Column::ALL[*column]).collect();
        self.schema = Arc::new(schema);
        Ok(())
    }

    /// The `count` events from number `first` on, independent of what has been polled: any part of the stream can be
    /// generated separately, for example by several threads.
    ///
    /// # Errors
    /// [`Cause::user`] if the event times go beyond the year 2262.
    pub fn range(&self, first: u64, count: usize) -> Result<RecordBatch, Cause> {
        let columns = self.columns.iter().map(|column| self.column(*column, first, count));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }

    fn column(&self, column: Column, first: u64, count: usize) -> Result<ArrayRef, Cause> {
        let random = self.random;
        let numbers = |draw: u64, limit: u32| -> ArrayRef {
            let number = |event| (((random.draw(event, draw) >> 32) * u64::from(limit)) >> 32) as i64;
            Arc::new(Int64Array::from_iter_values(events(first, count).map(number)))
        };
        let keys = |draw: u64, limit: usize| -> Int8Array {
            let key = |event| (((random.draw(event, draw) & 0xffff_ffff) * limit as u64) >> 32) as i8;
            Int8Array::from_iter_values(events(first, count).map(key))
        };
        Ok(match column {
            Column::UserId => numbers(1, self.config.users),
            Column::PageId => numbers(2, self.config.pages),
            Column::AdId => numbers(0, self.ads),
            Column::AdType => dictionary(keys(1, AD_TYPES.len()), &self.ad_types)?,
            Column::EventType => dictionary(keys(0, EVENT_TYPES.len()), &self.event_types)?,
            Column::EventTime => Arc::new(TimestampNanosecondArray::from(self.event_times(first, count)?)),
            Column::IpAddress => dictionary(Int8Array::from(vec![0; count]), &self.ip_addresses)?,
        })
    }

    fn event_times(&self, first: u64, count: usize) -> Result<Vec<i64>, Cause> {
        let mut times = Vec::with_capacity(count);
        self.times.append(first, count, &mut times)?;
        if self.config.out_of_order_ms > 0 {
            let limit = u128::from(self.config.out_of_order_ms) * 1_000_000 + 1;
            for (time, event) in times.iter_mut().zip(events(first, count)) {
                *time -= ((u128::from(self.random.draw(event, 3)) * limit) >> 64) as i64;
            }
        }
        Ok(times)
    }
}

impl Source for YahooEvents {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        self.pace.next(self.config.count, wait).polled(|first, count| self.range(first, count))
    }

    fn progress(&self) -> Progress {
        self.pace.progress(self.config.count)
    }

    fn is_finite(&self) -> bool {
        self.config.count.is_some()
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

/// The numbers of `count` events, counting on from 0 after the highest number.
fn events(first: u64, count: usize) -> impl ExactSizeIterator<Item = u64> {
    (0..count).map(move |index| first.wrapping_add(index as u64))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn dictionary(keys: Int8Array, values: &ArrayRef) -> Result<ArrayRef, Cause> {
    let array = DictionaryArray::<Int8Type>::try_new(keys, Arc::clone(values));
    array
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Cause::bug(error.to_string()).with_source(error))
}

/// Random numbers by event: splitmix64, entered at any position.
#[derive(Clone, Copy, Debug)]
struct EventRandom {
    key: u64,
}

/// Splitmix64's increment: 2^64 divided by the golden ratio.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

impl EventRandom {
    fn new(seed: u64) -> EventRandom {
        EventRandom { key: mix(seed.wrapping_add(INCREMENT)) }
    }

    /// One of the event's four random numbers, `draw` 0 to 3.
    #[inline]
    fn draw(self, event: u64, draw: u64) -> u64 {
        mix(self.key.wrapping_add(event.wrapping_mul(4).wrapping_add(draw + 1).wrapping_mul(INCREMENT)))
    }
}

/// Splitmix64's output function.
#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_is_splitmix64() {
        // The first outputs of the published generator with seed 1234567.
        let outputs: Vec<_> =
            (1..=3).map(|n: u64| mix(1_234_567u64.wrapping_add(n.wrapping_mul(INCREMENT)))).collect();
        assert_eq!(outputs, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }
}
