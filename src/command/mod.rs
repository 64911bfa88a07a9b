//! One file a verb: read the checked configuration, call the conductor or a view, print.

mod accept_loss;
mod completions;
mod context;
mod demo;
mod doctor;
mod failover;
mod grant;
mod handover;
mod init;
mod invite;
mod join;
mod log;
mod merge;
mod print;
mod probe;
mod progress;
mod proof;
mod recover;
mod register;
mod root;
mod routes;
mod serve;
mod simulate;
mod snapshot;
mod status;
mod sync;
mod tick;
mod verify;
mod why;

use crate::cli::{Cli, Peers, Verb};
use crate::error::{Failure, Kind};
use context::Context;

/// What a verb that did not fail ends with: 0, or that some input rows were set aside.
type Ending = anyhow::Result<Option<Kind>>;

/// Runs the verb and returns the exit code.
pub fn run(cli: &Cli) -> u8 {
    match dispatch(cli) {
        Ok(ending) => ending.map_or(0, Kind::exit_code),
        Err(error) => {
            // What no layer below gave a kind is a plain failure, with all it says.
            let failure = error
                .downcast::<Failure>()
                .unwrap_or_else(|other| Failure::failed(format!("{other:#}")));
            print::failure(cli.common.color, &failure);
            failure.kind.exit_code()
        }
    }
}

fn dispatch(cli: &Cli) -> Ending {
    let common = &cli.common;
    let plain = || Context::new(common, &Peers::default());
    let look = || Context::reading(common, &Peers::default());
    match &cli.verb {
        Verb::Init(init) => init::run(common, init),
        Verb::Invite(typed) => invite::run(&plain()?, typed),
        Verb::Join(typed) => join::run(&plain()?, typed),
        Verb::Register(typed) => register::register(&plain()?, typed),
        Verb::Grant(typed) => grant::grant(&plain()?, typed),
        Verb::Leave => register::leave(&plain()?),
        Verb::Drain(typed) => register::drain(&plain()?, typed),
        Verb::Revoke { node } => grant::revoke(&plain()?, node),
        Verb::RotateKey { log: false } => register::rotate_key(&plain()?),
        Verb::RotateKey { log: true } => grant::rotate_log_key(&plain()?),
        Verb::Handover(typed) => handover::run(&plain()?, typed),
        Verb::Recover(typed) => recover::run(&plain()?, typed),
        Verb::Tick(tick) => tick::run(&Context::new(common, &tick.peers)?, tick),
        Verb::Probe(peers) => probe::run(&Context::new(common, peers)?),
        Verb::Failover(failover) => {
            failover::run(&Context::reading(common, &failover.peers)?, failover)
        }
        Verb::Serve(serve) => serve::run(&Context::new(common, &serve.peers)?, serve),
        Verb::Status(reading) => status::run(&look()?, reading.json),
        Verb::Routes(routes) => routes::run(&look()?, routes),
        Verb::Log(log) => log::run(&look()?, log),
        Verb::Why(typed) => why::run(&look()?, typed),
        Verb::AcceptLoss => accept_loss::run(&plain()?),
        // It may have evidence to write.
        Verb::Verify(verify) if verify.against.is_some() => verify::run(&plain()?, verify),
        Verb::Verify(verify) => verify::run(&look()?, verify),
        Verb::Doctor(typed) => doctor::run(common, typed),
        Verb::Snapshot(reading) => snapshot::run(&plain()?, reading.json),
        Verb::Sync(typed) => sync::run(&plain()?, typed),
        Verb::Merge(reading) => merge::run(&plain()?, reading.json),
        Verb::Root(reading) => root::run(&look()?, reading.json),
        Verb::Proof(proof) => proof::run(common, proof),
        Verb::Simulate(typed) => simulate::run(typed),
        Verb::Demo(demo) => demo::run(common, demo.keep),
        Verb::Completions { shell } => completions::shell(*shell),
        Verb::Man { verb } => completions::manual(verb.as_deref()),
    }
}
