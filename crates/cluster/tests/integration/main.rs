//! The coordinators, against one set of tests.

mod coordinators;
