//! `status`: who is alive, how old that is, and what is wrong.

mod branch;
mod witnesses;

use super::context::Context;
use super::{Ending, print};
use crate::cli::Lang;
use crate::cycle::peers;
use crate::error::Failure;
use crate::http::router::peer_json;
use crate::protocol::member::NodeId;
use crate::protocol::membership::Member;
use crate::protocol::memory::{Memory, Suspicion};
use crate::protocol::subject::Subject;
use crate::protocol::suspicion;
use crate::protocol::verdict::needed;
use crate::store::accepted_clock::AcceptedClock;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::View;
use crate::store::{floor, shared_keys};
use crate::wire::freshness::Freshness;
use crate::wire::psv::PeerStatus;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;

struct Facts<'a> {
    follows: Option<String>,
    view: Option<View<'a>>,
    memory: Option<Memory>,
    freshness: Option<Freshness>,
    peers: Vec<PeerStatus>,
}

pub(super) fn run(context: &Context, as_json: bool) -> Ending {
    let disk = context.disk();
    let facts = gather(context, disk)?;
    if as_json {
        print::json(&as_value(context, &facts))?;
    } else {
        print::out(&as_text(context, &facts))?;
    }
    Ok(None)
}

fn gather<'a>(context: &Context, disk: Disk<'a>) -> Result<Facts<'a>, Failure> {
    let identity = Identity::load(&disk)?;
    let published = disk.length(&disk.layout.root())?.is_some();
    let follows = identity.as_ref().and_then(|identity| identity.anchors.first().cloned());
    // A member has nothing published until it fetched the anchor's journal.
    let view = match &identity {
        Some(identity) if identity.is_anchor() || published => Some(View::open(disk)?),
        _ => None,
    };
    let peers = peers::load_status(&disk, &context.config)?;
    if identity.is_none() && peers.is_none() {
        return Err(Failure::config(format!("nothing in {}", disk.layout.dir().display())).hint(
            "crowny-fed init founds a federation; with a roster alone, run crowny-fed probe",
        ));
    }
    Ok(Facts {
        follows,
        view,
        memory: small_json(&disk, &disk.layout.tick())?,
        freshness: small_json(&disk, &disk.layout.freshness())?,
        peers: peers.unwrap_or_default(),
    })
}

fn small_json<T: DeserializeOwned>(disk: &Disk<'_>, path: &Path) -> Result<Option<T>, Failure> {
    Ok(disk.read(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// What an operator should know first.
fn troubles(context: &Context, facts: &Facts<'_>) -> Vec<String> {
    let mut troubles = Vec::new();
    if let Some(fresh) = &facts.freshness {
        if fresh.blind {
            troubles.push(
                "local network problem: most peers went unheard at once, nobody is accused"
                    .to_owned(),
            );
        }
        let now = crate::cycle::publish::rfc3339(crate::host::Host::clock(&context.host).wall_ms);
        if now > fresh.valid_until {
            troubles.push(format!("the last tick is old ({}): is the timer running?", fresh.time));
        }
    }
    if let Some(memory) = &facts.memory {
        if memory.anchor_away > 0 {
            troubles.push(format!(
                "no anchor answered for {} ticks: this node goes on with what it has",
                memory.anchor_away
            ));
        }
        troubles.extend(memory.provisional.dead.iter().map(|id| {
            format!("provisional: {id} is missed by those who can be asked, and left out of this node's map until an anchor answers")
        }));
        troubles.extend(memory.provisional.doubted.iter().map(|id| {
            format!("provisional: {id} is doubted, with no anchor to judge; its rows are marked")
        }));
        let alone = memory.reach.unreachable.difference(&memory.provisional.dead);
        troubles.extend(alone.map(|id| {
            format!("unreachable-here: {id} does not answer this node and is left out of its map")
        }));
    }
    troubles.extend(suspects(context, facts));
    troubles.extend(roster_troubles(context));
    troubles.extend(journal_troubles(context, facts));
    let refused = facts.memory.as_ref().is_some_and(|memory| memory.branch_refused.is_some());
    troubles.extend(branch::troubles(context, facts.view.as_ref(), refused));
    let newer = facts.view.as_ref().map_or(0, |view| view.fold.not_understood);
    if newer > 0 {
        troubles.push(format!("upgrade needed: {newer} lines were written by a newer version"));
    }
    let own = facts.view.as_ref().and_then(|view| view.fold.membership.member(&view.identity.id));
    if own.is_some_and(|member| member.offers().is_empty()) {
        troubles.push(
            "this node offers no service, so its own gateway is not in the map: crowny-fed register --service name=url"
                .to_owned(),
        );
    }
    troubles
}

/// Who is doubted by this observer, for how long, and by whom else.
fn suspects(context: &Context, facts: &Facts<'_>) -> Vec<String> {
    let (Some(memory), Some(view)) = (&facts.memory, &facts.view) else { return Vec::new() };
    let members = view.fold.membership.present() as u64;
    let told = |(subject, open): (&Subject, &Suspicion)| {
        let needed = needed(&context.config.profile, members, (memory, open));
        let accusers: Vec<&str> = open.accusers.iter().map(NodeId::as_str).collect();
        let by = match accusers.is_empty() {
            true => String::new(),
            false => format!(", missed by {}", accusers.join(" ")),
        };
        format!(
            "{subject} is suspect for {} of {needed} ticks{by}; crowny-fed why {} tells more",
            open.ticks, subject.node
        )
    };
    let mut told: Vec<String> = memory.suspects.iter().map(told).collect();
    if memory.health > 0 {
        told.push(format!(
            "this observer's own health is {} of 8 (0 is well): it waits longer before it buries anybody",
            memory.health
        ));
    }
    told
}

/// What keeps the next tick or signed write from doing its work.
fn journal_troubles(context: &Context, facts: &Facts<'_>) -> Vec<String> {
    let disk = context.disk();
    let mut troubles: Vec<String> =
        floor::refuse_convicted(&disk).err().map(|failure| failure.message).into_iter().collect();
    // Only the owner can read the keys; others are not told what is wrong with them.
    troubles.extend(shared_keys::faults(&disk).unwrap_or_default());
    let Some(view) = &facts.view else {
        return troubles;
    };
    troubles.extend(witnesses::trouble(context, view));
    let held = disk.length(&disk.layout.journal()).ok().flatten().unwrap_or(0);
    if held < view.bytes {
        troubles
            .push(format!("the journal has {held} bytes, {} were signed: run verify", view.bytes));
        return troubles;
    }
    let last = view.checkpoint.size.checked_sub(1).and_then(|seq| view.line(seq).ok());
    let now_s = crate::host::Host::clock(&context.host).wall_ms.div_ceil(1_000);
    let accepted = AcceptedClock::load(&disk).ok().flatten();
    let counts = |last_s: &u64| {
        let accepted = accepted.is_some_and(|accepted| accepted.rules(*last_s, now_s));
        view.identity.is_anchor() && !accepted && last_s.saturating_sub(now_s) > 300
    };
    if let Some(ahead_s) = last.map(|last| last.line.ts).filter(counts).map(|ts| ts - now_s) {
        troubles.push(format!(
            "the clock is {ahead_s} s behind the journal's last line: signed writes wait; crowny-fed doctor says more, if it is right: crowny-fed doctor --accept-clock"
        ));
    }
    troubles
}

fn roster_troubles(context: &Context) -> Option<String> {
    let path = context.config.peers.display();
    match peers::find_roster(&context.disk(), &context.config) {
        Ok(Some(roster)) if !roster.rejected.is_empty() => {
            let first = &roster.rejected[0];
            let count = roster.rejected.len();
            Some(format!(
                "{path}: rows set aside: {count}, first line {}: {}",
                first.line, first.reason
            ))
        }
        Ok(_) => None,
        Err(failure) => Some(format!("the roster cannot be used: {}", failure.message)),
    }
}

fn as_value(context: &Context, facts: &Facts<'_>) -> Value {
    let profile = &context.config.profile;
    let present = facts.view.as_ref().map_or(0, |view| view.fold.membership.present() as u64);
    json!({
        "node": context.config.own,
        "follows": facts.follows,
        "origin": facts.view.as_ref().map(|view| &view.checkpoint.origin),
        "size": facts.view.as_ref().map(|view| view.checkpoint.size),
        "root": facts.view.as_ref().map(|view| view.checkpoint.root),
        "tick": facts.memory.as_ref().map(|memory| memory.tick),
        "last_tick": facts.freshness.as_ref().map(|fresh| &fresh.time),
        "blind": facts.freshness.as_ref().map(|fresh| fresh.blind),
        "interval_ms": profile.interval_ms,
        "suspicion_ticks_max": suspicion::ticks_max(profile, present),
        "detection_ms_max": suspicion::detection_ms_max(profile, present),
        "health": facts.memory.as_ref().map(|memory| memory.health),
        "blind_ticks": facts.memory.as_ref().map(|memory| memory.blind_ticks),
        "anchor_away_ticks": facts.memory.as_ref().map(|memory| memory.anchor_away),
        "provisional": facts.memory.as_ref().map(|memory| &memory.provisional),
        "unreachable_here": facts.memory.as_ref().map(|memory| &memory.reach.unreachable),
        "branch": branch::waiting(context),
        "conflicts": facts.view.as_ref().map(branch::conflicts),
        "troubles": troubles(context, facts),
        "witnesses": facts.view.as_ref().map(|view| witnesses::value(context, view)),
        "members": members(facts),
        "peers": facts.peers.iter().map(peer_json).collect::<Vec<_>>(),
    })
}

fn suspicion_of<'a>(facts: &'a Facts<'_>, id: &NodeId) -> Option<&'a Suspicion> {
    facts.memory.as_ref()?.suspects.get(&Subject::node(id))
}

fn members(facts: &Facts<'_>) -> Vec<Value> {
    let Some(view) = &facts.view else {
        return Vec::new();
    };
    let member = |(id, member): (&NodeId, &Member)| {
        json!({
            "node": id,
            "liveness": member.standing.liveness,
            "incarnation": member.standing.incarnation,
            "keyed": member.enrolled,
            "suspect_ticks": suspicion_of(facts, id).map(|open| open.ticks),
            "accusers": suspicion_of(facts, id).map(|open| &open.accusers),
            "services_doubted": &member.doubted,
            "services": member.offers().iter().map(|offer| offer.name.to_string()).collect::<Vec<_>>(),
        })
    };
    view.fold.membership.members().map(member).collect()
}

fn as_text(context: &Context, facts: &Facts<'_>) -> String {
    let mut text = String::new();
    for trouble in troubles(context, facts) {
        text.push_str(&format!("! {trouble}\n"));
    }
    if let (Some(anchor), None) = (&facts.follows, &facts.view) {
        text.push_str(&format!("follows the anchor at {anchor}; no journal here yet\n\n"));
    }
    if let Some(view) = &facts.view {
        text.push_str(&summary(context, facts, view));
        text.push_str(&witnesses::text(context, view));
        text.push_str(&member_table(context, facts, view));
    }
    if !facts.peers.is_empty() {
        text.push_str(&peer_table(context, &facts.peers));
    }
    text
}

fn summary(context: &Context, facts: &Facts<'_>, view: &View<'_>) -> String {
    let profile = &context.config.profile;
    let present = view.fold.membership.present() as u64;
    let tick = facts.memory.as_ref().map_or(0, |memory| memory.tick);
    let last = facts.freshness.as_ref().map_or("never", |fresh| fresh.time.as_str());
    let detection = match suspicion::detection_ms_max(profile, present) {
        Some(ms) => format!("a death is declared after at most {} s", ms.div_ceil(1_000)),
        None => "ticks are started by hand".to_owned(),
    };
    let log = view.fold.log.as_ref().map_or(0, |log| log.epoch);
    let anchor = match view.fold.anchor() {
        Some(anchor) if *anchor == view.identity.id => "the anchor".to_owned(),
        Some(anchor) => format!("following {anchor}"),
        None => "following nobody yet".to_owned(),
    };
    format!(
        "{}  {} lines  root {}\nthis is {}, {anchor} in epoch {log}\ntick {tick} at {last}; suspicion lasts {} ticks, {detection}\n\n",
        view.checkpoint.origin,
        view.checkpoint.size,
        view.checkpoint.root,
        view.identity.id,
        suspicion::ticks_max(profile, present),
    )
}

fn member_table(context: &Context, facts: &Facts<'_>, view: &View<'_>) -> String {
    let rows = view.fold.membership.members().map(|(id, member)| {
        let waited = suspicion_of(facts, id).map(|open| open.ticks);
        let services: Vec<String> =
            member.offers().iter().map(|offer| offer.name.to_string()).collect();
        vec![
            id.to_string(),
            liveness(facts, id, member),
            member.standing.incarnation.value().to_string(),
            waited.map_or("-".to_owned(), |ticks| ticks.to_string()),
            if member.enrolled { "key" } else { "roster" }.to_owned(),
            services.join(" "),
        ]
    });
    let head = match context.common.lang {
        Lang::En => ["node", "liveness", "inc", "suspect ticks", "by", "services"],
        Lang::Ko => ["노드", "생사", "화신", "의심 틱", "근거", "서비스"],
    };
    print::table(&head, rows.collect()) + "\n"
}

/// What the journal says, and where our own map does otherwise.
fn liveness(facts: &Facts<'_>, id: &NodeId, member: &Member) -> String {
    let word = member.standing.liveness.word();
    let out = facts.memory.as_ref().is_some_and(|memory| {
        memory.reach.unreachable.contains(id) || memory.provisional.dead.contains(id)
    });
    if out { format!("{word}, not in this map") } else { word.to_owned() }
}

fn peer_table(context: &Context, peers: &[PeerStatus]) -> String {
    let rows = peers.iter().map(|row| {
        vec![
            row.id.to_string(),
            format!("{} {}", row.judgement.word(), row.judgement.english()),
            format!("{:03}", row.http),
            format!("{}.{:03}", row.ms / 1_000, row.ms % 1_000),
            row.in_sync.word().to_owned(),
            row.checked_at.clone(),
            row.reason.clone(),
        ]
    });
    let head = match context.common.lang {
        Lang::En => ["peer", "last probe", "http", "seconds", "in sync", "checked", "reason"],
        Lang::Ko => ["피어", "판정", "http", "초", "동기화", "점검시각", "사유"],
    };
    print::table(&head, rows.collect())
}
