//! `recover`: a node becomes the anchor by the recovery key.

use super::context::Context;
use super::{Ending, print, progress};
use crate::auth::keys::parse_seed;
use crate::cli::Recover;
use crate::cycle::recovery::{Recovered, Recovery, recover};
use crate::error::{Failure, Kind};
use crate::host::{Host, Span};
use crate::protocol::registration::parse_url;
use anyhow::Context as _;
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::io::Read;
use std::path::Path;
use zeroize::Zeroizing;

/// Longest key file read.
const KEY_BYTES_MAX: u64 = 4 * 1024;

pub(super) fn run(context: &Context, typed: &Recover) -> Ending {
    for url in &typed.urls {
        parse_url(url).map_err(|error| Failure::new(Kind::Usage, format!("--url: {error}")))?;
    }
    let bar = progress::bar(progress::LINES);
    let progress = progress::show(&bar);
    let asked = Recovery {
        key: key(context, &typed.key)?,
        urls: typed.urls.clone(),
        force: typed.force,
        progress: &progress,
    };
    let done = recover(&context.host, &context.config, &asked);
    bar.finish_and_clear();
    tell(context, typed, &done?)?;
    Ok(None)
}

/// The seed, which is never part of an error.
fn key(context: &Context, from: &str) -> Result<SigningKey, anyhow::Error> {
    let mut text = Zeroizing::new(String::new());
    if from == "-" {
        let read = std::io::stdin().take(KEY_BYTES_MAX).read_to_string(&mut text);
        read.context("cannot read the recovery key from standard input")?;
    } else if parse_seed(from).is_ok() {
        return Err(Failure::new(Kind::Usage, "--key names a file, or - for standard input")
            .hint("a key on the command line shows in ps: keep it elsewhere from now on")
            .into());
    } else {
        let span = Span { from: 0, most: KEY_BYTES_MAX };
        let bytes = context.host.read(Path::new(from), span).map(Zeroizing::new);
        let bytes = bytes.with_context(|| format!("cannot read {from}"))?;
        text.push_str(std::str::from_utf8(&bytes).unwrap_or_default());
    }
    parse_seed(&text).map_err(|error| {
        Failure::new(Kind::Usage, format!("the recovery key: {error}"))
            .hint("give the contents of keys/recovery.key that init wrote")
            .into()
    })
}

fn tell(context: &Context, typed: &Recover, done: &Recovered) -> Result<(), Failure> {
    done.warnings.iter().for_each(|warning| print::warn(warning));
    if typed.json {
        return print::json(&json!({
            "line": done.line,
            "epoch": done.epoch,
            "anchor": done.node,
            "enrol_again": done.shared,
            "unasked": done.unasked,
            "warnings": done.warnings,
        }));
    }
    if context.common.quiet {
        return Ok(());
    }
    let mut text = format!(
        "line {}: {} serialises in epoch {}; the others follow within some ticks\nnext: serve, the timer, [[witness]] and the roster as the lost anchor had them; crowny-fed revoke for its key if that is in wrong hands\n",
        done.line, done.node, done.epoch
    );
    if !done.unasked.is_empty() {
        let names: Vec<String> = done.unasked.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "not asked, for they do not answer: {}; lines that only they hold are kept there when they are back: words of members are merged, but enrolments, grants and revocations have to be done again\n",
            names.join(", ")
        ));
    }
    if !done.shared.is_empty() {
        let names: Vec<String> = done.shared.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "their shared keys were the lost anchor's, invite them again with --replace: {}\n",
            names.join(", ")
        ));
    }
    print::out(&text)
}
