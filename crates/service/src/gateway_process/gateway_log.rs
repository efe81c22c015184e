//! What a gateway begins with: the definitions of its server. It keeps none itself.

use std::path::Path;
use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_sql::Settings;

use super::server_link::ServerLink;
use crate::catalog::log::CatalogLog;
use crate::catalog::record::CatalogRecord;
use crate::runtime::query_folder::is_query_folder;

/// Has the records that the server gave, and keeps no others: the server has all of them. What replaces a definition counts only if
/// it does at all gateways, so the server is asked before this log would have it.
pub(super) struct GatewayLog {
    pub records: Vec<CatalogRecord>,
    pub server: Arc<ServerLink>,
    pub defaults: Settings,
}

impl CatalogLog for GatewayLog {
    fn read(&mut self) -> Result<Vec<CatalogRecord>, Cause> {
        Ok(std::mem::take(&mut self.records))
    }

    fn append(&mut self, record: &CatalogRecord) -> Result<(), Cause> {
        match record {
            CatalogRecord::Replaced(_, query) => {
                let folder = Settings::decode(&query.settings, &self.defaults)?.journal;
                let name =
                    folder.as_deref().filter(|folder| is_query_folder(folder)).and_then(Path::file_name);
                self.server.decision(name.map(|name| name.to_string_lossy().into_owned()))
            }
            CatalogRecord::Definition(_) => self.server.decision(None),
            _ => Ok(()),
        }
    }
}
