//! PURE: who is alive and who is routed.
//!
//! Nothing here knows a clock, a socket, a file or a generator: rules take values and return
//! values (design law 8), so whole nodes replay from a seed and a journal alike.

pub mod address;
pub mod asking;
pub mod blind;
pub mod caps;
pub mod contact;
pub mod diagnosis;
pub mod failover;
pub mod health;
pub mod hearsay;
pub mod heirs;
pub mod member;
pub mod membership;
pub mod memory;
pub mod probe;
pub mod profile;
pub mod provisional;
pub mod reach;
pub mod registration;
pub mod roster;
pub mod route;
pub mod service;
pub mod subject;
pub mod suspicion;
pub mod turns;
pub mod verdict;
pub mod word;
