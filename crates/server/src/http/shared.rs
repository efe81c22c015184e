//! What all HTTP connections share.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tidemill_connect::http::Connections;
use tidemill_service::Runtime;
use tokio::sync::Semaphore;

use super::authenticate::Authentication;
use super::options::HttpOptions;

/// What all HTTP connections share.
pub(super) struct HttpState {
    pub options: HttpOptions,
    pub started: Instant,
    /// Set once the queries of the catalogue have been started.
    pub runtime: OnceLock<Runtime>,
    /// Room for connections. One that keeps the server waiting makes room for another.
    pub connections: Arc<Connections>,
    /// Room for questions.
    pub questions: Arc<Semaphore>,
    pub authentication: Authentication,
    /// Whether only this machine can ask.
    pub is_local: bool,
}

impl HttpState {
    pub fn new(options: HttpOptions, is_local: bool) -> io::Result<HttpState> {
        let connections = Connections::new(options.connections_max, usize::MAX);
        let questions = Arc::new(Semaphore::new(options.questions_max));
        let authentication = Authentication::new(is_local || options.is_insecure)?;
        let (started, runtime) = (Instant::now(), OnceLock::new());
        Ok(HttpState { options, started, runtime, connections, questions, authentication, is_local })
    }
}
