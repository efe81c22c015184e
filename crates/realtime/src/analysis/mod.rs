//! Bounds on response times: on one processor, on several, under a CPU budget; and admission, which chooses when
//! batches are released so that a deadline is kept, or says what breaks it.
//!
//! Times are whole nanoseconds. Sums that would overflow count as too large, so a bound is never too small. Every bound is
//! safe under the model that its function states: a simulation of that model never exceeds it (`tests/simulation.rs`).
//!
//! ```
//! use tidemill_realtime::analysis::{Admission, Arrivals, Processors, Stream, admit};
//!
//! // At most four events at once, bursts at least 200 ms apart, 28 ms of work for each event, answers within 150 ms.
//! let ms = 1_000_000;
//! let stream = Stream::new(Arrivals::bursts_up_to(4, 200 * ms), 28 * ms);
//! let Ok(Admission { release, bound }) = admit(&stream, &Processors::one(), 150 * ms) else { panic!() };
//! // Four fill the buffer and are released at once; three may wait for 66 ms, and then take 84.
//! assert_eq!(release.buffer_max, 4);
//! assert_eq!((release.interval_ns, bound.latency_ns), (66 * ms, 150 * ms));
//! ```

mod admission;
mod arrivals;
mod bound;
mod costs;
mod fixed_point;
mod fixed_priority;
mod interference;
mod processors;
mod stream;

pub use admission::{Admission, Refusal, admit};
pub use arrivals::Arrivals;
pub use bound::{Bound, elements_within, latency_bound, papers_bound, spaced_bound};
pub use costs::CostModel;
pub use fixed_point::NoBound;
pub use fixed_priority::{PeriodicTask, global_response_ns, partitioned_response_ns, single_response_ns};
pub use interference::{DeferrableServer, Interference};
pub use processors::{Demand, Processors};
pub use stream::{Completion, Release, Stream};
