//! The functions of FROM and the plan nodes that they become: windows, sub-streams, processes, and the operators of users.

pub(super) mod adaptive_regions;
pub(super) mod as_of_the_row;
pub(super) mod call_arguments;
pub(super) mod count_windows;
pub(super) mod empty_windows;
pub(super) mod last_of_key;
pub(super) mod lift;
pub(super) mod local_windows;
pub(super) mod map_call;
pub(super) mod marked;
pub(super) mod operator_call;
pub(super) mod process;
pub(super) mod process_call;
pub(super) mod relations;
pub(super) mod select_before;
pub(super) mod source_relation;
pub(super) mod split_call;
pub(super) mod split_stream;
pub(super) mod weighted_rows;
pub(super) mod window_assign;
