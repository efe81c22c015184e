//! Intake: gateways take events, and the cutter closes cycles of them, or replays logged cycles.

pub(crate) mod cutter;
pub(crate) mod cycle;
pub(crate) mod gateway;
pub(crate) mod given;
pub(crate) mod resume;
