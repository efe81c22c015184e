//! The marks of processes, and of work that is done for a subscriber before rows are sent to it.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::DFSchema;

use super::marked::{Mark, Marked};
use crate::relations::stream_process::StreamProcess;

/// A process. It is the same one wherever it is named.
#[derive(Clone, Debug)]
pub(crate) struct ProcessMark(pub Arc<StreamProcess>);

/// A query with a name and a place. It runs once for all of its readers.
pub(crate) type ProcessNode = Marked<ProcessMark>;

impl PartialEq for ProcessMark {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProcessMark {}

impl Hash for ProcessMark {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.plan.name.hash(state);
    }
}

impl PartialOrd for ProcessMark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.plan.name.partial_cmp(&other.0.plan.name)
    }
}

impl Mark for ProcessMark {
    const NAME: &'static str = "Process";

    fn shown(&self, _schema: &DFSchema) -> String {
        self.0.plan.name.clone()
    }
}

/// See [`Postfilter`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct PostfilterMark;

/// `postfilter((SELECT ... FROM process WHERE ...))`: rows are selected and computed in the place of the process that
/// sends them (thesis, Paper III, section 4.2).
pub(crate) type Postfilter = Marked<PostfilterMark>;

impl Mark for PostfilterMark {
    const NAME: &'static str = "Postfilter";

    fn shown(&self, _schema: &DFSchema) -> String {
        String::new()
    }
}
