//! How events come in: gateways take them, the cutter closes cycles of them, or makes logged cycles again.

pub(crate) mod cutter;
pub(crate) mod cycle;
pub(crate) mod gateway;
pub(crate) mod resume;
