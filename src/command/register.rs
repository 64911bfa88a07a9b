//! `register`, `leave`, `drain`, `rotate-key`: a member's word about itself.

use super::context::Context;
use super::{Ending, print};
use crate::cli::{Drain, Reach, Register};
use crate::config::duration_ms;
use crate::cycle::speaking::{Offer, Said, Word, say};
use crate::error::{Failure, Kind};
use crate::protocol::registration::parse_url;
use crate::protocol::service::Service;

pub(super) fn register(context: &Context, typed: &Register) -> Ending {
    let offer = Offer { outbound: outbound(typed.reach), ..offer(&typed.urls, &typed.services)? };
    speak(context, &Word::Register(offer), "registered")
}

pub(super) fn leave(context: &Context) -> Ending {
    speak(context, &Word::Leave, "left")
}

pub(super) fn rotate_key(context: &Context) -> Ending {
    speak(context, &Word::RotateKey, "another key speaks from now on; the old one for an hour more")
}

pub(super) fn drain(context: &Context, typed: &Drain) -> Ending {
    let usage = |error: String| Failure::new(Kind::Usage, format!("--for: {error}"));
    let for_s =
        typed.for_.as_deref().map(duration_ms).transpose().map_err(usage)?.map(|ms| ms / 1_000);
    let done = if typed.off { "drains no more" } else { "drains" };
    speak(context, &Word::Drain { on: !typed.off, for_s }, done)
}

/// What `--reach` says.
pub(super) fn outbound(reach: Option<Reach>) -> Option<bool> {
    reach.map(|reach| reach == Reach::Outbound)
}

/// Checks what was typed after `--url` and `--service`.
pub(super) fn offer(urls: &[String], services: &[String]) -> Result<Offer, Failure> {
    let usage = |error: String| Failure::new(Kind::Usage, error);
    urls.iter().try_for_each(|url| parse_url(url).map(|_| ())).map_err(usage)?;
    let services: Vec<Service> = services
        .iter()
        .map(|text| Service::parse(text))
        .collect::<Result<_, _>>()
        .map_err(usage)?;
    services.iter().try_for_each(|service| parse_url(&service.url).map(|_| ())).map_err(usage)?;
    Ok(Offer { urls: urls.to_vec(), services, outbound: None })
}

fn speak(context: &Context, word: &Word, done: &str) -> Ending {
    let said = say(&context.host, &context.config, word)?;
    if !context.common.quiet {
        print::out(&match said {
            Said::Accepted(accepted) => format!("{done}: line {}\n", accepted.seq),
            Said::Kept { line, why } => format!(
                "{why}: kept as line {line} of branch.ndjson, merged by the next tick that can\n"
            ),
        })?;
    }
    Ok(None)
}
