//! The arguments that say what a share must fulfil.

use clap::{Args, ValueEnum};
use tidemill_trip_grouping::criteria::{Criteria, Order, SHARE_MAX};

/// What a share must fulfil.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Shares")]
pub(crate) struct CriteriaArguments {
    /// The most people in a share
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(2..=SHARE_MAX as i64))]
    max_share: u8,
    /// The part of the cost that each member saves at least; those who find no such share go alone
    #[arg(long, value_name = "PART", default_value_t = 0.2)]
    min_savings: f64,
    /// Seconds between two moments at which shares are made
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(i64).range(1..=86_400))]
    cycle: i64,
    /// Who gets a share first
    #[arg(long, value_enum, default_value_t = OrderArgument::Arrival)]
    order: OrderArgument,
}

/// In which order expiring requests get their shares.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArgument {
    /// One after the other, in the order of arrival
    Arrival,
    /// The cheapest share of all first
    Cheapest,
}

impl CriteriaArguments {
    /// The criteria, not checked yet.
    pub(crate) fn criteria(&self) -> Criteria {
        let order = match self.order {
            OrderArgument::Arrival => Order::Arrival,
            OrderArgument::Cheapest => Order::CheapestFirst,
        };
        let (max_share, min_savings) = (self.max_share.into(), self.min_savings);
        Criteria { max_share, min_savings, cycle: self.cycle, order }
    }
}
