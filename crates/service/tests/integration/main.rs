//! All integration tests of this package in one binary, so that they are linked once.

mod altered;
mod announced;
mod catalog_log;
mod clock;
mod database;
mod deadlines;
mod dropped;
mod fed;
mod gate;
mod held_back_senders;
mod journaled;
mod killed;
mod killed_process;
mod killed_stops;
mod one_cycle;
mod real_time;
mod recovery;
mod replaced;
mod runtime;
mod runtimes;
mod statements;
mod stopped;
mod users;
mod view_memory;
mod waiting;
