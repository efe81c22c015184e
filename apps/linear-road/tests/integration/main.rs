//! All integration tests of this package in one binary, so that they are linked once.

mod application;
mod application_run;
mod check;
mod generated;
mod generator;
mod rating;
mod reference;
mod reference_data;
mod reference_edges;
mod reference_example;
mod scenario_coverage;
mod scenario_validity;
mod scenarios;
mod shared_data;
mod source;
mod text_read;
