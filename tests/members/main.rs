//! The real binary as an anchor and the members that it judges: signed health, helpers, accusers,
//! refutation, services, blindness, and three machines with a network between them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod accusers;
mod blind;
mod death;
mod federation;
mod harness;
mod health;
mod helping;
mod namespaces;
mod network;
mod outbound;
mod refute;
mod rounds;
mod services;
mod settings;
mod signed;
mod stand_in;
