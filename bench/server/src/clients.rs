//! Clients of the server.

use std::net::SocketAddr;

use tokio_postgres::{Client, Config, Error, NoTls};

/// Opens a session.
pub async fn connect(address: SocketAddr) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(address.ip().to_string()).port(address.port()).user("bench").dbname("bench");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
