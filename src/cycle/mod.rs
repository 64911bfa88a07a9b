//! The conductor: the one place that knows the order of a run.
//!
//! load → plan → probe → decide → append → publish. Rules are called, not written here; the world
//! is reached through [`crate::host::Host`] alone, so a simulated world runs these same lines.

pub mod admission;
pub mod against;
pub mod enrolment;
pub mod founding;
pub mod peers;
pub mod plan;
pub mod publish;
pub mod rounds;
pub mod speaking;
pub mod tick;
