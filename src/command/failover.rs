//! `failover`: who takes over now.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Failover;
use crate::cycle::rounds;
use serde_json::json;

pub(super) fn run(context: &Context, typed: &Failover) -> Ending {
    let list = rounds::failover(&context.host, &context.config)?;
    if let Some(old) = &list.old {
        print::warn(&format!("old list: {old}"));
    }
    if typed.json {
        let nodes: Vec<_> = list
            .rows
            .iter()
            .map(
                |listed| json!({"id": listed.id, "host": listed.row.host, "port": listed.row.port}),
            )
            .collect();
        print::json(&json!({"rule": list.rule, "old": list.old, "nodes": nodes}))?;
        return Ok(None);
    }
    let lines: String = list
        .rows
        .iter()
        .map(|listed| format!("{}|{}|{}\n", listed.id, listed.row.host, listed.row.port))
        .collect();
    print::out(&lines)?;
    Ok(None)
}
