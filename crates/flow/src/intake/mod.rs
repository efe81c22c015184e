//! Intake: gateways take events, and the cutter closes cycles of them, or replays logged cycles.

pub(crate) mod cutter;
pub(crate) mod cycle;
pub(crate) mod gateway;
pub(crate) mod given;
pub(crate) mod held_back;
pub(crate) mod pool_entry;
pub(crate) mod resume;
