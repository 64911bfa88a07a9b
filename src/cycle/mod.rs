//! The conductor: the one place that knows the order of a run.
//!
//! load → plan → probe → decide → append → publish. Rules are called, not written here; the world
//! is reached through [`crate::host::Host`] alone, so a simulated world runs these same lines.

pub mod admission;
pub mod against;
mod agents;
mod anchorless;
mod branching;
mod claiming;
mod crossing;
mod delivering;
pub mod doctor;
pub mod enrolment;
mod follow;
pub mod fork;
pub mod founding;
pub mod handover;
mod hearsay;
pub mod helping;
pub mod joining;
mod judging;
pub mod loading;
mod looking;
pub mod merging;
pub mod observing;
pub mod peers;
pub mod plan;
mod probing;
pub mod publish;
mod pull;
pub mod recovery;
pub mod refuting;
pub mod rounds;
pub mod server;
pub mod snapshot;
pub mod speaking;
pub mod sync;
pub mod tick;
pub mod witnesses;
