//! `routes`: the map.

use super::context::Context;
use super::{Ending, print};
use crate::cli::{RouteFormat, Routes};
use crate::error::{Failure, Kind};
use crate::wire::routes::split;
use serde_json::{Value, json};

pub(super) fn run(context: &Context, typed: &Routes) -> Ending {
    let path = context.config.layout.routes();
    let text = context.disk().read_text(&path)?.ok_or_else(|| {
        Failure::new(Kind::No, format!("no map yet: {} is missing", path.display()))
            .hint("run: crowny-fed tick")
    })?;
    let (generation, rows) = split(&text).ok_or_else(|| {
        Failure::integrity(format!("{} is not a whole map", path.display()))
            .hint("the next tick writes it anew")
    })?;
    let wanted = |row: &&str| {
        typed.service.as_ref().is_none_or(|service| row.split('|').next() == Some(service))
    };
    let rows: Vec<&str> = rows.lines().filter(|row| !row.starts_with('#')).filter(wanted).collect();
    if typed.json || typed.format == RouteFormat::Json {
        let rows: Vec<Value> = rows.iter().map(|row| row_json(row)).collect();
        print::json(&json!({"generation": generation, "routes": rows}))?;
    } else if typed.service.is_some() {
        print::out(&rows.iter().map(|row| format!("{row}\n")).collect::<String>())?;
    } else {
        print::out(&text)?;
    }
    if rows.is_empty() && typed.service.is_some() {
        anyhow::bail!(Failure::new(Kind::No, "no such service in the map"));
    }
    Ok(None)
}

fn row_json(row: &str) -> Value {
    let fields: Vec<&str> = row.split('|').collect();
    let number = |prefix: &str| {
        fields
            .iter()
            .find_map(|field| field.strip_prefix(prefix))
            .and_then(|n| n.parse::<u64>().ok())
    };
    json!({
        "service": fields.first(),
        "node": fields.get(1),
        "url": fields.get(2),
        "weight": number("weight="),
        "state": fields.get(4),
        "incarnation": number("inc="),
        "flags": fields.get(6..).unwrap_or_default(),
    })
}
