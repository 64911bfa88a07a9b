//! The documents hold: what they tell to type exists, what they link to is there, what they show as
//! an example is read by the program's own parsers.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod bodies;
mod commands;
mod examples;
mod health;
mod links;
mod markdown;
mod members;
