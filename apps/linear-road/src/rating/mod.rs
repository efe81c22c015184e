//! The rating: the largest number of expressways that this machine serves in real time.
//!
//! A base group of expressways is run once through the minutes before the measured window. Its state is then cloned
//! with shifted ids to L expressways, and the window, the hardest part of a run, is replayed at its true rates: every
//! report of second t falls due within [t, t+1). The driver and the encoding of the answers run on the same cores as
//! everything else and count.

pub mod base_group;
pub mod check;
pub mod clone;
pub mod feeder;
pub mod memory;
pub mod search;
pub mod sink;
pub mod trial;
pub mod window;

pub use base_group::{BaseGroup, BaseOptions, RatingError};
pub use trial::{Pace, TrialOptions, TrialResult, run_trial};
