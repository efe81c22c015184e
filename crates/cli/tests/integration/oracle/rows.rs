//! The rows that are sent, in each form that is needed, and which of them are late.

use tidemill_testing::random::Random;

/// Words of the column `g`.
const WORDS: &[&str] = &["a", "ab", "b", "ä", "x y", ""];
/// How far the watermark is behind the largest time.
pub const DELAY_MS: i64 = 2000;

/// A row of a source. `n` numbers the rows of the source from 0.
#[derive(Clone, Debug)]
pub struct Sent {
    pub n: i64,
    pub at_ms: i64,
    k: Option<i64>,
    g: Option<&'static str>,
    v: Option<i64>,
    d: Option<f64>,
    /// In hundredths.
    p: Option<i64>,
    b: Option<bool>,
    x: f64,
    y: f64,
}

/// The columns of a source.
pub const COLUMNS: &str = "n BIGINT NOT NULL, ts TIMESTAMP NOT NULL, k BIGINT, g VARCHAR, v BIGINT, d DOUBLE, p \
 DECIMAL(10, 2), \
    b BOOLEAN, x DOUBLE, y DOUBLE";

/// The rows of one source: times continue, with some of them back by more than the watermark permits.
pub struct Rows {
    random: Random,
    /// Rows come in larger requests with some seeds, so that views have several chunks.
    scale: usize,
    next: i64,
    time_ms: i64,
}

impl Rows {
    pub fn new(seed: u64, source: u64) -> Rows {
        let scale = if seed.is_multiple_of(4) { 12 } else { 1 };
        Rows { random: Random::of_stream(seed, 1000 + source), scale, next: 0, time_ms: 10_000 }
    }

    /// The next rows, some of which are like rows before them but for their number.
    pub fn take(&mut self, count: usize) -> Vec<Sent> {
        (0..count).map(|_| self.row()).collect()
    }

    /// A number of rows for the next request.
    pub fn count(&mut self) -> usize {
        self.scale * self.random.one_of(&[1, 1, 2, 3, 5, 8, 20])
    }

    fn row(&mut self) -> Sent {
        let random = &mut self.random;
        self.time_ms += [0, 0, 100, 100, 300, 700][random.index(6)];
        let back_ms = match random.index(12) {
            0 => 500 + 100 * random.index(15) as i64,
            1 => 100 * random.index(60) as i64,
            _ => 0,
        };
        let some = |random: &mut Random| !random.is_once_in(8);
        let n = self.next;
        self.next += 1;
        Sent {
            n,
            at_ms: self.time_ms - back_ms,
            k: some(random).then(|| random.index(6) as i64),
            g: some(random).then(|| random.one_of(WORDS)),
            v: some(random).then(|| random.index(201) as i64 - 100),
            // Their sums are exact in any order.
            d: some(random).then(|| random.index(400) as f64 / 4.0 - 50.0),
            p: some(random).then(|| random.index(2000) as i64 - 700),
            b: some(random).then(|| random.is_once_in(2)),
            x: random.index(40) as f64 / 2.0,
            y: random.index(40) as f64 / 2.0,
        }
    }
}

impl Sent {
    fn time(&self) -> String {
        let (seconds, ms) = (self.at_ms / 1000, self.at_ms % 1000);
        format!("2026-01-01 {:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    fn values(&self, null: &str, text: impl Fn(&str) -> String) -> [String; 10] {
        fn or<T: ToString>(value: Option<T>, null: &str) -> String {
            value.map_or(null.to_owned(), |value| value.to_string())
        }
        [
            self.n.to_string(),
            text(&self.time()),
            or(self.k, null),
            or(self.g.map(&text), null),
            or(self.v, null),
            or(self.d, null),
            or(self.p.map(hundredths), null),
            or(self.b, null),
            self.x.to_string(),
            self.y.to_string(),
        ]
    }

    /// A JSON object and a line break.
    pub fn json(&self) -> String {
        let names = ["n", "ts", "k", "g", "v", "d", "p", "b", "x", "y"];
        let values = self.values("null", |text| format!("{text:?}"));
        let members: Vec<String> =
            names.iter().zip(values).map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}\n", members.join(","))
    }

    /// A line of PostgreSQL's text format.
    pub fn text(&self) -> String {
        self.values("\\N", str::to_owned).join("\t") + "\n"
    }

    /// What stands after VALUES.
    pub fn sql(&self) -> String {
        format!("({})", self.values("NULL", |text| format!("'{text}'")).join(", "))
    }
}

fn hundredths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", value.abs() / 100, value.abs() % 100)
}

/// Which rows are late, as they come.
#[derive(Default)]
pub struct Lateness {
    largest_ms: Option<i64>,
}

impl Lateness {
    /// Whether the next row is behind the watermark.
    pub fn is_late(&mut self, at_ms: i64) -> bool {
        let is_late = self.largest_ms.is_some_and(|largest_ms| at_ms < largest_ms - DELAY_MS);
        self.largest_ms = self.largest_ms.max(Some(at_ms));
        is_late
    }
}
