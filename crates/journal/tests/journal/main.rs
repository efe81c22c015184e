//! The journal on disks that fail, with damage in its files, at its limits, and with others beside it.

mod concurrent;
mod damage;
mod hostile;
mod limits;
mod lost_end;
mod offsets;
mod parts;
mod power_loss;
mod removed;
mod support;
mod views;
mod widened;
