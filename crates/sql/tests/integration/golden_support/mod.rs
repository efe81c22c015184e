//! Golden cases: how they are read, run and shown.

pub mod case;
pub mod run;
pub mod show;
