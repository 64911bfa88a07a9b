//! `root`: the signed checkpoint.

use super::context::Context;
use super::{Ending, print};
use crate::store::view::View;
use serde_json::json;

pub(super) fn run(context: &Context, as_json: bool) -> Ending {
    let view = View::open(context.disk())?;
    if as_json {
        print::json(&json!({
            "origin": view.checkpoint.origin,
            "size": view.checkpoint.size,
            "root": view.checkpoint.root,
            "vkey": view.vkey.to_string(),
        }))?;
    } else {
        print::out(&view.note)?;
    }
    Ok(None)
}
