//! Groups, aggregate functions and the operators over them, against slow and obvious versions of the same.

mod combine;
mod empty_windows;
mod failed_results;
mod functions;
mod groups;
mod harness;
mod limits;
mod oracle;
mod session;
mod table;
mod window;
