//! The newest records of the log, in memory, for those who look at a server from elsewhere.

mod kept_log;
mod layer;
mod record;

pub use self::kept_log::KeptLog;
pub use self::layer::KeptLogLayer;
pub(crate) use self::record::{LogId, LogRecord};
