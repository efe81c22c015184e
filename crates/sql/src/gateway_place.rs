//! Which gateways a process has.

/// Where the rows of sources enter that name a gateway (`WITH (gateway = 'west')`).
///
/// ```
/// use tidemill_sql::{GatewayPlace, Planner, parse};
/// let mut planner = Planner::new();
/// planner.settings_mut().gateways = GatewayPlace::Elsewhere;
/// let script = "CREATE SOURCE cars (vid BIGINT) WITH (connector = 'tcp', listen = '127.0.0.1:7000', format = 'csv',
///         gateway = 'west');
///     CREATE MATERIALIZED VIEW fast AS SELECT vid FROM cars";
/// for statement in parse(script, "example").unwrap() {
///     planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
/// }
/// assert_eq!(planner.catalog().gateways_of("fast"), ["west"]);
/// assert!(planner.pipeline().unwrap().is_none(), "nothing is to run here");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GatewayPlace {
    /// In this process, whatever their gateway: it has no others.
    #[default]
    Ignored,
    /// In other processes, each of which has the parts of views whose rows enter there. This one reads the views.
    Elsewhere,
    /// Those of this gateway enter here, and those of other gateways elsewhere.
    Here(String),
}
