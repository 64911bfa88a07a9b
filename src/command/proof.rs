//! `proof`: makes an inclusion proof, or checks one with nothing but files and a key.

use super::context::{Context, host, working_folder};
use super::{Ending, print};
use crate::auth::vkey::VerifierKey;
use crate::cli::{Common, Peers, Proof};
use crate::error::{Failure, Kind};
use crate::host::{Host, Span};
use crate::http::router::parse_seq;
use crate::journal::merkle::Hash;
use crate::journal::tlog_proof::parse_tlog_proof;
use crate::protocol::member::NodeId;
use crate::store::view::View;
use serde_json::json;
use std::path::Path;

pub(super) fn run(common: &Common, typed: &Proof) -> Ending {
    if let (Some(proof), Some(line), Some(vkey)) = (&typed.check, &typed.line, &typed.vkey) {
        return check((proof, line, vkey), typed.json);
    }
    let context = Context::reading(common, &Peers::default())?;
    let view = View::open(context.disk())?;
    let wanted = typed.of.as_deref().unwrap_or_default();
    let seq = find(&view, wanted)?.ok_or_else(|| {
        Failure::new(Kind::No, format!("no published line is '{}'", wanted.escape_debug()))
    })?;
    let proof = view.proof(seq)?;
    if typed.json {
        let parsed =
            parse_tlog_proof(&proof).map_err(|error| Failure::failed(error.to_string()))?;
        let leaf = view.line(seq)?.leaf;
        print::json(
            &json!({"seq": seq, "leaf": leaf, "path": parsed.path, "checkpoint": parsed.checkpoint}),
        )?;
    } else {
        print::out(&proof)?;
    }
    Ok(None)
}

/// 64 hex digits are a hash, digits a seq, anything else a node.
fn find(view: &View<'_>, wanted: &str) -> Result<Option<u64>, Failure> {
    if let Ok(leaf) = Hash::parse_hex(wanted) {
        return view.seq_of(&leaf);
    }
    if !wanted.is_empty() && wanted.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_seq(wanted).map(Some);
    }
    let id = NodeId::parse(wanted).map_err(|error| {
        Failure::new(
            Kind::Usage,
            format!("'{}' is no hash, no seq and no node id: {error}", wanted.escape_debug()),
        )
    })?;
    Ok(view.seq_about(&id))
}

fn check((proof, line, vkey): (&Path, &Path, &str), as_json: bool) -> Ending {
    let here = working_folder(proof)?;
    let read = |path: &Path| {
        host(None)
            .read(&here.join(path), Span::WHOLE)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))
    };
    let vkey = VerifierKey::parse(vkey)
        .map_err(|error| Failure::new(Kind::Usage, format!("--vkey: {error}")))?;
    let line = read(line)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let text = String::from_utf8(read(proof)?)
        .map_err(|_| Failure::integrity("the proof is not UTF-8"))?;
    let parsed = parse_tlog_proof(&text)
        .map_err(|error| Failure::integrity(format!("no tlog-proof: {error}")))?;
    let checkpoint = parsed.verify(line, &vkey).map_err(|error| {
        Failure::integrity(format!("the proof does not hold: {error}"))
            .hint("--line wants the line exactly as it stands in the journal: crowny-fed log --raw")
    })?;
    if as_json {
        print::json(
            &json!({"verified": true, "origin": checkpoint.origin, "index": parsed.index, "size": checkpoint.size}),
        )?;
    } else {
        print::out(&format!(
            "verified: line {} of {} lines of {}\n",
            parsed.index, checkpoint.size, checkpoint.origin
        ))?;
    }
    Ok(None)
}
