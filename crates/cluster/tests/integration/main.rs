//! The coordinators against one set of tests, the decisions against properties, and both in a simulation.

mod coordinators;
mod decisions;
mod simulation;
