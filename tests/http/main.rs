//! The HTTP shell over real sockets, independent of what is served.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod handover;
mod refuse;
mod serve;
mod served;
