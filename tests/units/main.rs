//! The shipped units, plists and crontab: accepted by the schedulers' own checkers where there are
//! any, free of the traps that were measured, and started with arguments the real binary takes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod crontab;
mod launchd;
mod plist;
mod run;
mod systemd;
