//! The query, which turns reports and queries into answers.
//!
//! ```text
//! reports -- by expressway --> tolls --> toll notifications, accident notifications
//!                                `-- charges, by vehicle --> accounts --> balances
//! balance queries ------------------------- by vehicle ----/
//! expenditure queries -- by vehicle --> expenditures --> expenditures
//! ```

use std::sync::Arc;

use tidemill_engine::arrow::array::types::{UInt16Type, UInt32Type};
use tidemill_engine::{OperatorPlan, Plan, route_by_key};

use crate::accounts::{self, Accounts};
use crate::expenditures::history::History;
use crate::expenditures::{self, Expenditures};
use crate::schema;
use crate::tolls::{self, Tolls};

/// The source's stream of position reports.
pub const REPORT_STREAM: usize = 0;
/// The source's stream of balance queries.
pub const BALANCE_QUERY_STREAM: usize = 1;
/// The source's stream of expenditure queries.
pub const EXPENDITURE_QUERY_STREAM: usize = 2;

/// Name of the toll operator in snapshots.
pub const TOLLS: &str = "tolls";
/// Name of the account operator in snapshots.
pub const ACCOUNTS: &str = "accounts";

/// Logical partitions of the operators. They do not change the answers, only how finely work is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// Of expressways.
    pub expressways: u32,
    /// Of vehicles.
    pub vehicles: u32,
}

impl Default for Partitions {
    fn default() -> Self {
        Partitions { expressways: 256, vehicles: 64 }
    }
}

/// The plan. Its one sink takes toll notifications, accident notifications, balances and expenditures.
pub fn plan(partitions: Partitions, history: Arc<History>) -> Plan {
    let mut plan = Plan::new("linear road");
    let input =
        plan.source("input", [schema::reports(), schema::balance_queries(), schema::expenditure_queries()]);

    let of_expressways = partitions.expressways;
    let tolls = plan.operator(
        OperatorPlan::new(TOLLS, of_expressways, move |_| Box::new(Tolls::new(of_expressways)))
            .input(input[REPORT_STREAM], &tolls::COLUMNS, route_by_key::<UInt16Type>(3, of_expressways))
            .output(schema::toll_notifications())
            .output(schema::accident_notifications())
            .output(schema::charges()),
    );
    let of_vehicles = partitions.vehicles;
    let accounts = plan.operator(
        OperatorPlan::new(ACCOUNTS, of_vehicles, move |p| Box::new(Accounts::new(p, of_vehicles)))
            .input(input[BALANCE_QUERY_STREAM], &["time", "vid", "qid"], accounts::route(1, of_vehicles))
            .input(tolls[tolls::CHARGE_PORT], &["vid", "toll"], accounts::route(0, of_vehicles))
            .output(schema::balances()),
    );
    let expenditures = plan.operator(
        OperatorPlan::new("expenditures", of_vehicles, move |_| {
            Box::new(Expenditures::new(Arc::clone(&history)))
        })
        .input(
            input[EXPENDITURE_QUERY_STREAM],
            &expenditures::COLUMNS,
            route_by_key::<UInt32Type>(1, of_vehicles),
        )
        .output(schema::expenditures()),
    );
    let answers = [tolls[tolls::TOLL_PORT], tolls[tolls::ACCIDENT_PORT], accounts[0], expenditures[0]];
    plan.sink("answers", answers);
    plan
}
