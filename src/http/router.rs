//! Which path answers what. Every answer is read from disk at the moment it is asked for, and only
//! what lies under the published checkpoint is shown. Writes are signed and go through `cycle`.

use super::message::{Method, Problem, Request, Response};
use super::{health, page, status};
use crate::config::Config;
use crate::cycle::{admission, enrolment, helping, observing, peers};
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::bundle::Bundle;
use crate::journal::locator::{self, Place};
use crate::journal::merkle::Hash;
use crate::journal::page::PAGE_BYTES_MAX;
use crate::journal::tile::Tile;
use crate::protocol::member::NodeId;
use crate::store::audit::{Depth, audit};
use crate::store::disk::Disk;
use crate::store::pages;
use crate::store::view::{Published, View};
use crate::wire::psv::PeerStatus;
use serde_json::{Value, json};

/// Largest journal that `/nodes` sends.
const NODES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What the HTTP face shows.
#[derive(Clone, Copy)]
pub struct Face<'a> {
    /// The world.
    pub host: &'a dyn Host,
    /// Our configuration.
    pub config: &'a Config,
}

impl std::fmt::Debug for Face<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Face").field("config", self.config).finish_non_exhaustive()
    }
}

/// Answers one request.
pub fn answer(face: &Face<'_>, request: &Request) -> Response {
    match request.method {
        Method::Get | Method::Head => read(face, request),
        Method::Post => write(face, request),
        Method::Other => not_allowed("GET, HEAD, POST"),
    }
}

/// Signed writes: the path names the kind, and the kind is part of what was signed, so a body for
/// one path is worth nothing on another.
fn write(face: &Face<'_>, request: &Request) -> Response {
    let (host, config, body) = (face.host, face.config, request.body.as_slice());
    let kind = request.path.strip_prefix('/').unwrap_or_default();
    let told = match kind {
        "observe" => Some(
            observing::receive(host, config, body)
                .map(|tick| Response::json(&json!({ "tick": tick })).status(202)),
        ),
        admission::MERGE => {
            Some(admission::merge(host, config, body).map(|brought| Response::json(&brought)))
        }
        "q/health" => Some(health::accused(face, body)),
        "q/ping-req" => Some(helping::help(host, config, body).map(|told| Response::json(&told))),
        _ => None,
    };
    if let Some(told) = told {
        return told.unwrap_or_else(|refusal| status::refusal(&refusal));
    }
    let done = match kind {
        "enroll" => enrolment::enroll(face.host, face.config, &request.body),
        kind if admission::KINDS.contains(&kind) => {
            admission::submit(face.host, face.config, kind, &request.body)
        }
        _ => return not_allowed("GET, HEAD"),
    };
    match done {
        Ok(accepted) => Response::json(&accepted),
        Err(refusal) => status::refusal(&refusal),
    }
}

fn not_allowed(methods: &str) -> Response {
    let refusal = Problem::new(405, "method-not-allowed", format!("this path answers {methods}"));
    let mut response = Response::problem(&refusal);
    response.headers.push(("allow", methods.to_owned()));
    response
}

fn read(face: &Face<'_>, request: &Request) -> Response {
    let disk = Disk { host: face.host, layout: &face.config.layout };
    let answered = match request.path.as_str() {
        "/" => page::status(face, disk),
        "/q/health" => health::plain(face, disk, request.param("c")),
        "/q/peers" => peers_status(face, disk, request),
        "/head" => head(disk),
        "/routes" => stored(disk, &face.config.layout.routes(), "no map published yet"),
        "/root" | "/checkpoint" => {
            stored(disk, &face.config.layout.root(), "no checkpoint published yet")
        }
        "/verify" => audit(&disk, Depth::Journal).map(|audit| Response::json(&audit)),
        "/nodes" => nodes(disk),
        "/sync" if request.param("branch").is_some() => {
            pages::branch(&disk).map(Response::lines)
        }
        "/sync" => sync(disk, request),
        "/proof" => proof(disk, request),
        "/consistency" => consistency(disk, request),
        path if path.starts_with("/tile/") => tile(disk, &path[1..]),
        _ => Err(Failure::new(Kind::No, "no such path")
            .hint("/ /q/health /q/peers /head /routes /nodes /sync /root /checkpoint /verify /proof /consistency /tile/..")),
    };
    answered.unwrap_or_else(|failure| status::failure(&failure))
}

/// `/q/peers`: the status file, read afresh each time.
fn peers_status(face: &Face<'_>, disk: Disk<'_>, request: &Request) -> Result<Response, Failure> {
    if request.accepts_json() {
        let rows = peers::load_status(&disk, face.config)?.ok_or_else(not_judged)?;
        return Ok(Response::json(
            &json!({ "peers": rows.iter().map(peer_json).collect::<Vec<_>>() }),
        ));
    }
    stored(disk, &face.config.status, "no peer judged yet")
}

fn not_judged() -> Failure {
    Failure::new(Kind::No, "no peer judged yet").hint("run: crowny-fed probe")
}

/// One status row as JSON.
pub fn peer_json(row: &PeerStatus) -> Value {
    json!({
        "node": row.id,
        "host": row.host,
        "port": row.port,
        "role": row.role,
        "judgement": row.judgement,
        "http": row.http,
        "ms": row.ms,
        "in_sync": row.in_sync.word(),
        "reason": row.reason,
        "checked_at": row.checked_at,
    })
}

fn head(disk: Disk<'_>) -> Result<Response, Failure> {
    let published = Published::read(&disk)?;
    let head = published.head(&disk);
    Ok(Response::json(&json!({ "size": published.checkpoint.size, "head": head })))
}

/// `/nodes`: the whole published journal, while it is small enough to be sent in one piece.
fn nodes(disk: Disk<'_>) -> Result<Response, Failure> {
    let view = View::open(disk)?;
    if view.bytes > NODES_BYTES_MAX {
        let why = format!("the journal has {} bytes, limit {NODES_BYTES_MAX}", view.bytes);
        return Err(Failure::failed(why).hint("fetch /tile/entries/.. instead: they never change"));
    }
    let mut response = Response::text("");
    response.content_type = "application/x-ndjson; charset=utf-8".into();
    response.body = view.lines()?;
    Ok(response)
}

/// `/sync`: the lines after a place; 409 where the place is none of ours, with the newest place of
/// the asker's locator that is.
fn sync(disk: Disk<'_>, request: &Request) -> Result<Response, Failure> {
    let bad = |why: String| Failure::new(Kind::Usage, why);
    let (Some(size), Some(since)) = (request.param("size"), request.param("since")) else {
        return Err(bad("expected ?size=N&since=hash of line N-1".to_owned()));
    };
    let head = Hash::parse_hex(since).map_err(|error| bad(format!("since: {error}")))?;
    let place = Place { size: parse_seq(size)?, head };
    let most = request.param("most").map_or(Ok(PAGE_BYTES_MAX), parse_seq)?;
    let places = request.param("locator").map_or(Ok(Vec::new()), locator::parse).map_err(bad)?;
    let published = Published::read(&disk)?;
    if pages::holds(&disk, &published, place)? {
        return Ok(Response::lines(pages::page(&disk, &published, (place.size, most))?));
    }
    let mut common = None;
    for place in places {
        if pages::holds(&disk, &published, place)? {
            common = common.max(Some(place.size));
        }
    }
    let size = published.checkpoint.size;
    let unknown = json!({
        "type": "about:blank", "title": "Conflict", "status": 409, "error": "unknown-position",
        "message": format!("no line of ours ends at size {} with this hash, we have {size} lines", place.size),
        "checkpoint": published.note, "common": common,
    });
    Ok(Response { content_type: "application/problem+json".into(), ..Response::json(&unknown) }
        .status(409))
}

fn proof(disk: Disk<'_>, request: &Request) -> Result<Response, Failure> {
    let view = View::open(disk)?;
    let seq = match (request.param("hash"), request.param("seq"), request.param("node")) {
        (Some(hash), None, None) => {
            let leaf = Hash::parse_hex(hash)
                .map_err(|error| Failure::new(Kind::Usage, format!("hash: {error}")))?;
            view.seq_of(&leaf)?
        }
        (None, Some(seq), None) => Some(parse_seq(seq)?),
        (None, None, Some(node)) => {
            let id = NodeId::parse(node)
                .map_err(|error| Failure::new(Kind::Usage, error.to_string()))?;
            view.seq_about(&id)
        }
        _ => {
            return Err(Failure::new(Kind::Usage, "expected one of ?hash= ?seq= ?node="));
        }
    };
    let seq = seq.ok_or_else(|| {
        Failure::new(Kind::No, "not published yet: no such line under the checkpoint")
    })?;
    Ok(Response::text(view.proof(seq)?))
}

fn consistency(disk: Disk<'_>, request: &Request) -> Result<Response, Failure> {
    let view = View::open(disk)?;
    let (Some(old), Some(new)) = (request.param("old"), request.param("new")) else {
        return Err(Failure::new(Kind::Usage, "expected ?old=&new="));
    };
    let (old, new) = (parse_seq(old)?, parse_seq(new)?);
    let path = view.consistency(old, new)?;
    Ok(Response::json(&json!({"old": old, "new": new, "path": path, "checkpoint": view.note})))
}

/// Reads an index: decimal digits, no sign, no leading zero.
pub fn parse_seq(text: &str) -> Result<u64, Failure> {
    match text.parse::<u64>() {
        Ok(seq) if seq.to_string() == text => Ok(seq),
        _ => Err(Failure::new(
            Kind::Usage,
            format!("seq '{}', expected a decimal number", text.escape_debug()),
        )),
    }
}

/// Only what is spelled as a tile or bundle is looked for: a path never walks our folder.
fn tile(disk: Disk<'_>, path: &str) -> Result<Response, Failure> {
    let known = Tile::parse_path(path).is_some() || Bundle::parse_path(path).is_some();
    let bytes = if known { disk.read(&disk.layout.tile(path))? } else { None };
    bytes.map(Response::bytes).ok_or_else(|| Failure::new(Kind::No, "no such tile is published"))
}

fn stored(disk: Disk<'_>, path: &std::path::Path, absent: &str) -> Result<Response, Failure> {
    let text = disk.read_text(path)?.ok_or_else(|| Failure::new(Kind::No, absent))?;
    Ok(Response::text(text))
}
