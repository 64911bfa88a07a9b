//! A whole federation in one process, from one seed: disks that forget, networks that drop, clocks
//! that jump, and the real conductor running on them.
//!
//! Nothing of the product is replaced but [`crate::host::Host`]: `init`, `tick` and the HTTP router
//! run unchanged. A run is a function of its seed, so a failure is a number.

pub mod chance;
pub mod disk;
pub mod world;
