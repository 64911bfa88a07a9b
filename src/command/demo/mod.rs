//! `demo`: the main job shown for real, and checked while it is shown.
//!
//! The program watches itself from outside, as an operator would: it starts processes of this same
//! binary, asks them over HTTP, runs verbs and reads their exit codes. No sentence is printed
//! before what it says was compared with what they answered.

mod acts;
mod claims;
mod scene;
mod stage;

use super::{Ending, print};
use crate::cli::Common;
use claims::Teller;
use stage::Stage;

const INTRODUCTION: &str =
    "Three gateways of this program run here on loopback; one is killed and comes back.
Each sentence is checked against processes and files before it is printed.";

pub(super) fn run(common: &Common, keep: bool) -> Ending {
    let stage = Stage::open(keep)?;
    let teller = Teller::new(common.quiet);
    teller.say(INTRODUCTION)?;
    let played = acts::play(&stage, &teller);
    if keep {
        print::warn(&format!("kept: {}", stage.folder().display()));
    }
    played?;
    stage.close()?;
    print::out(&format!(
        "verified: all {} claims were checked against the running processes and their files\n",
        teller.claims()
    ))?;
    Ok(None)
}
