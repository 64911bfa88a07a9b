//! crowny-fed keeps the services of a few self-hosted gateways up when a node dies, without a
//! daemon: a timer starts a tick, the tick reads the disk, asks the peers, decides, writes what it
//! decided, publishes a route map, and exits.
//!
//! # One run
//!
//! [`cycle::tick::run`] is the whole story: **load → plan → probe → decide → append → publish**;
//! on a node, which writes no line, **sync → check → probe → tell → publish**.
//! A line is synced to the journal before anything that anybody could see depends on it.
//!
//! # The house
//!
//! | folder | what kind | may import |
//! | --- | --- | --- |
//! | [`protocol`] | PURE: who is alive, who is routed | nothing of ours |
//! | [`auth`] | PURE: keys and signed bytes | nothing of ours |
//! | [`journal`] | PURE: lines, chain, tree, proofs, notes, the fold | `protocol` `auth` |
//! | [`wire`] | PURE: shapes at the border | the three above |
//! | [`host`] | SHELL: the world behind one trait | plain types of `protocol` and `wire` |
//! | [`store`] | SHELL: the journal on disk, through the trait | pure folders, `host` trait |
//! | [`cycle`] | the conductor: the order of a run | pure folders, `store`, `host` trait |
//! | [`http`] | SHELL: the server, and which path answers what | pure folders, `cycle`, `store`, `host` trait |
//! | [`sim`] | a seeded world under the real conductor | `http` `host` trait, plain types |
//! | [`command`] | one file a verb | everything but rules |
//!
//! `layout` (names of files), `protected` (law 1), `error` (kinds and exit codes), `config` (flags and file, checked) and
//! `cli` (flags as typed) stand beside them. `tests/tidy.rs` and Clippy's `disallowed-methods` hold
//! the walls up.
//!
//! # Where to change what
//!
//! | question | file |
//! | --- | --- |
//! | when does a peer become suspect or dead? | `protocol/verdict.rs`, `protocol/suspicion.rs` |
//! | when is our own network to blame? | `protocol/blind.rs` |
//! | how much may one tick take away? | `protocol/caps.rs` |
//! | what is in the map? | `protocol/route.rs`, `wire/routes.rs` |
//! | what does a journal line look like? | `journal/line.rs`, `journal/record.rs` |
//! | what happens after a crash? | `store/ledger.rs` |
//! | what does `verify` believe? | `store/audit.rs` |
//! | who cosigns, and who waits for that? | `cycle/witnesses.rs`, `store/root.rs` |
//! | how is a file replaced? | `host/file.rs` |
//! | how is a peer asked? | `host/dial.rs`, `cycle/peers.rs` |
//! | how does a member get the journal, and why believe it? | `cycle/sync.rs`, `cycle/pull.rs`, `journal/prefix.rs` |
//! | what does a node's own tick do? | `cycle/follow.rs` |
//! | what convicts the log's key? | `cycle/against.rs`, `cycle/fork.rs` |
//! | what is wrong here, and what repairs it? | `protocol/diagnosis.rs`, `cycle/doctor.rs` |
//! | which path answers what? | `http/router.rs` |
//!
//! # Deliberately absent
//!
//! No daemon and no thread that outlives a request. No leader election: one anchor serialises, and
//! a new one is an operator's signed act. No push of configuration, no reload, no DNS update: we
//! judge and publish, the layers above act. No lock file, no trusted pid. No retry on a handle
//! whose sync failed. No canonical JSON in the trust path: stored bytes are hashed as they are.

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
pub mod protected;
pub mod protocol;
pub mod sim;
pub mod store;
pub mod wire;
