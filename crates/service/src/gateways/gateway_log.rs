//! What a gateway begins with: the definitions of its server. It keeps none itself.

use tidemill_engine::Cause;

use crate::catalog_log::CatalogLog;
use crate::catalog_record::CatalogRecord;

/// Has the records that the server gave, and keeps no others: the server has all of them.
pub(super) struct GatewayLog(pub Vec<CatalogRecord>);

impl CatalogLog for GatewayLog {
    fn read(&mut self) -> Result<Vec<CatalogRecord>, Cause> {
        Ok(std::mem::take(&mut self.0))
    }

    fn append(&mut self, _record: &CatalogRecord) -> Result<(), Cause> {
        Ok(())
    }
}
