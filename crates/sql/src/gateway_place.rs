//! Which gateways a process has.

/// Where the rows of sources enter that name a gateway (`WITH (gateway = 'west')`).
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
