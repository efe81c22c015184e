//! A run from its input to its files of answers, as a library: it never prints.
//!
//! Threads: a reader, which reads and decompresses (or generates) ahead; the intake, which parses, keeps the pace and
//! pushes into the engine; and the engine's own. At most a few parcels wait between reader and intake.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//! use tidemill_linear_road::generator::GeneratorConfig;
//! use tidemill_linear_road::run::{Input, Run, RunOptions};
//!
//! let traffic = GeneratorConfig { expressways: 2, minutes: 30, seed: 7, ..GeneratorConfig::default() };
//! let options = RunOptions::new(Input::Generated(traffic), "answers");
//! let run = Run::start(options, Arc::new(AtomicBool::new(false)))?;
//! while !run.is_done() {
//!     std::thread::sleep(Duration::from_millis(100));
//!     println!("{} answers with a toll", run.progress().answers.tolls_above_zero);
//! }
//! let summary = run.join()?;
//! println!("half of the events were answered within {:?}", summary.status.per_event.quantile(0.5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod control;
mod driver;
mod error;
mod feeder;
mod history_read;
mod intake_thread;
mod options;
mod reader;

pub use driver::{FailedRun, Progress, Run, RunSummary};
pub use error::RunError;
pub use options::{Input, Pace, PaceError, RunOptions};
