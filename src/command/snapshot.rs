//! `snapshot`: writes snapshot.json anew, from the whole journal.

use super::context::Context;
use super::{Ending, print, progress};
use crate::cycle::snapshot;
use serde_json::json;

pub(super) fn run(context: &Context, as_json: bool) -> Ending {
    let bar = progress::bar(progress::BYTES);
    let written = snapshot::write(&context.host, &context.config, &progress::show(&bar));
    bar.finish_and_clear();
    let written = written?;
    let (size, head, sha256) = (written.size, written.head, written.sha256());
    if as_json {
        print::json(&json!({ "size": size, "head": head, "sha256": sha256 }))?;
    } else {
        print::out(&format!("snapshot of {size} lines, head {head}, sha256 {sha256}\n"))?;
    }
    Ok(None)
}
