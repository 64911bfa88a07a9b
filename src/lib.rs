//! crowny-fed: keeps services up across a few self-hosted gateways when a node dies. No daemon.
pub mod auth;
pub mod cli;
pub mod command;
pub mod config;
pub mod cycle;
pub mod error;
pub mod host;
pub mod http;
pub mod journal;
pub mod layout;
pub mod protocol;
pub mod store;
pub mod wire;
