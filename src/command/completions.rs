//! `completions` and `man`: made from the flags themselves.

use super::{Ending, print};
use crate::cli::Cli;
use crate::error::{Failure, Kind};
use anyhow::Context;
use clap::CommandFactory;

pub(super) fn shell(shell: clap_complete::Shell) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "crowny-fed", &mut script);
    print::out(&String::from_utf8_lossy(&script))?;
    Ok(None)
}

pub(super) fn manual(verb: Option<&str>) -> Ending {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = verb {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| Failure::new(Kind::Usage, format!("no verb '{name}'")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).context("cannot render the manual")?;
    print::out(&String::from_utf8_lossy(&page))?;
    Ok(None)
}
