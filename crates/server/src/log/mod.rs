//! The newest records of the log, in memory, for those who look at a server from elsewhere.

mod layer;
mod recent_log;
mod record;

pub use self::layer::RecentLogLayer;
pub use self::recent_log::RecentLog;
pub(crate) use self::record::{LogId, LogRecord};
