//! Functions of times and intervals.

pub(in crate::logical) mod durations;
pub(in crate::logical) mod listed_zones;
pub(in crate::logical) mod made_times;
pub(in crate::logical) mod read_patterns;
pub(in crate::logical) mod scaled_intervals;
pub(in crate::logical) mod time_differences;
pub(in crate::logical) mod time_parts;
pub(in crate::logical) mod time_patterns;
pub(in crate::logical) mod time_zones;
pub(in crate::logical) mod truncated_times;
