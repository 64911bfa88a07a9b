//! `verify`: the disk held against what was signed.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Verify;
use crate::store::audit::{Depth, audit};

pub(super) fn run(context: &Context, typed: &Verify) -> Ending {
    let depth = if typed.full { Depth::Full } else { Depth::Journal };
    let audit = audit(&context.disk(), depth)?;
    if typed.json {
        print::json(&serde_json::to_value(&audit).unwrap_or_default())?;
        return Ok(None);
    }
    let mut text =
        format!("verified {}: {} lines, root {}\n", audit.origin, audit.size, audit.root);
    if typed.full {
        text.push_str(&format!(
            "  {} signatures, {} tiles and bundles, index and snapshot agree\n",
            audit.signatures, audit.tiles
        ));
    }
    if audit.unsigned_lines > 0 || audit.torn_bytes > 0 {
        text.push_str(&format!(
            "  beyond the checkpoint: {} whole lines and {} torn bytes, which the next tick takes care of\n",
            audit.unsigned_lines, audit.torn_bytes
        ));
    }
    print::out(&text)?;
    Ok(None)
}
