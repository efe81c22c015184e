//! Stores of other processes of this machine: who has them answers questions at a Unix socket, and readers ask there.
//!
//! A reader first takes a version of each view that it reads, all at one moment. The other process keeps them as long as the
//! reader has the connection. Then it asks for rows by time, place and key, as of a store of its own, and gets them as a stream
//! of Arrow IPC. A reader may also follow a view: it asks again and again what has changed, so the other process keeps nothing
//! for it. Whoever may open the socket may read: it belongs into a folder of the user.

mod endpoint;
mod follower;
mod message;
mod server;

pub use endpoint::{Endpoint, RemoteAnswer, RemoteVersion};
pub use follower::{NoChanges, RemoteFollower};
pub use message::{FollowPosition, Moment, receive_frame, send_frame};
pub use server::{Changes, StoreDirectory, StoreServer, ViewFollower};
