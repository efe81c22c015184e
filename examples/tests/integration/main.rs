//! All integration tests of this package in one binary, so that they are linked once.

mod guide;
mod linear_road;
mod linear_road_data;
mod linear_road_split;
mod own_connectors;
mod sql;
mod yahoo;

#[path = "../../../apps/linear-road/tests/integration/application_run/mod.rs"]
mod application_run;
#[path = "../../linear_road/operator.rs"]
mod operator;
#[path = "../../own_format.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod own_format;
#[path = "../../own_sink.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod own_sink;
#[path = "../../own_source.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod own_source;
