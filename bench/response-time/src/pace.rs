//! When each view is due, and the thread that sends it then.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::{RecordBatch, UInt32Array, UInt64Array};
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Batch, Chunk, Clock, Gateway};

use crate::count;

/// Views at a constant rate.
#[derive(Clone, Copy)]
pub struct Pace {
    /// When the first view is due, on the engine's clock.
    pub start_ns: u64,
    /// Views per second.
    pub rate: u64,
    /// Seconds before the measured ones.
    pub warm_up_seconds: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Different keys.
    pub keys: u32,
    /// How long the sender sleeps when no view is due; zero: it spins.
    pub sleep: Duration,
}

impl Pace {
    /// When a view is due.
    pub fn due_ns(&self, number: u64) -> u64 {
        self.start_ns + (u128::from(number) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// The number of views that are due by now; the first is due at the start.
    fn due(&self, now_ns: u64) -> u64 {
        match now_ns.checked_sub(self.start_ns) {
            Some(elapsed_ns) => (u128::from(elapsed_ns) * u128::from(self.rate) / 1_000_000_000) as u64 + 1,
            None => 0,
        }
    }

    /// All views, measured or not.
    pub fn views(&self) -> u64 {
        ((self.warm_up_seconds + self.seconds) * self.rate as f64) as u64
    }

    /// The moment from which on views count.
    pub fn measured_from_ns(&self) -> u64 {
        self.start_ns + (self.warm_up_seconds * 1e9) as u64
    }

    /// The key of a view: scattered, each about as often.
    pub fn key(&self, number: u64) -> u32 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * u64::from(self.keys)) >> 32) as u32
    }

    /// Waits until shortly before the first view is due.
    pub fn wait_for_start(&self, clock: &Arc<dyn Clock>) {
        let ahead = Duration::from_nanos(self.start_ns.saturating_sub(clock.now_ns()));
        std::thread::sleep(ahead.saturating_sub(Duration::from_millis(1)));
    }

    /// Sends all views, each batch when its first view is found to be due. Returns by how much the latest batch was
    /// late, in nanoseconds: the sender's sleep, and for how long the machine did not let it run.
    pub fn feed(&self, gateway: &Gateway, clock: &Arc<dyn Clock>) -> u64 {
        let (schema, mut sent, mut late_max_ns) = (count::views(), 0, 0);
        while sent < self.views() {
            let now_ns = clock.now_ns();
            let due = self.due(now_ns).min(self.views());
            if due <= sent {
                match self.sleep {
                    Duration::ZERO => std::hint::spin_loop(),
                    sleep => std::thread::sleep(sleep),
                }
                continue;
            }
            if self.due_ns(sent) >= self.measured_from_ns() {
                late_max_ns = late_max_ns.max(now_ns - self.due_ns(sent));
            }
            if gateway.push(self.chunk(&schema, sent, due)).is_err() {
                break;
            }
            sent = due;
        }
        late_max_ns
    }

    fn chunk(&self, schema: &SchemaRef, from: u64, to: u64) -> Chunk {
        let keys = Arc::new(UInt32Array::from_iter_values((from..to).map(|number| self.key(number)))) as _;
        let numbers = Arc::new(UInt64Array::from_iter_values(from..to)) as _;
        let rows = RecordBatch::try_new(Arc::clone(schema), vec![keys, numbers])
            .expect("the columns are the schema's");
        let events = (to - from) as u32;
        let batch = Batch::from_source(rows, (0..events).collect());
        Chunk { streams: vec![Some(batch)], events, watermark: i64::MIN, arrived_ns: None, idle: false }
    }
}
