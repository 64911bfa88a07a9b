//! A whole federation in one process, from one seed.
//!
//! [`world`] and [`disk`] are nodes, links and disks under the real conductor: nothing of the
//! product is replaced but [`crate::host::Host`]; `init`, `tick` and the HTTP router run unchanged.
//! [`field`] and what stands around it is the model behind `simulate`: no bytes and no disk, only
//! who asks whom and what the rules of `protocol` make of it, beside plain SWIM, fast enough for a
//! thousand members. Either way a run is a function of its seed, so a failure is a number.

pub mod chance;
pub mod course;
pub mod disk;
pub mod federation;
pub mod field;
pub mod grid;
pub mod moment;
pub mod paper;
pub mod plain_swim;
pub mod score;
pub mod world;
