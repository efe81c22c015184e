//! A function that holds queries up.

use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::Planner;

/// Holds a query up as long as it is closed.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn set(&self, is_closed: bool) {
        *self.0.0.lock() = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        self.0.1.wait_while(&mut self.0.0.lock(), |is_closed| *is_closed);
    }

    /// Registers `gated(BIGINT)`, which gives its argument once the gate is open.
    pub fn register(&self, planner: &mut Planner) {
        let gate = self.clone();
        planner.register_function("gated", vec![DataType::Int64], DataType::Int64, move |columns| {
            gate.pass();
            Ok(Arc::clone(&columns[0]))
        });
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // A test that fails must end.
        if thread::panicking() {
            self.set(false);
        }
    }
}
