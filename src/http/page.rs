//! `GET /`: one page a person can read; always 200, since it is also what peers probe.

use super::message::Response;
use super::router::Face;
use crate::cycle::peers;
use crate::error::Failure;
use crate::store::disk::Disk;
use crate::store::view::View;
use crate::wire::psv::PeerStatus;
use maud::{DOCTYPE, Markup, html};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}\
code{font-size:.85em;overflow-wrap:anywhere}";

/// The page; what cannot be read is said on it.
pub(super) fn status(face: &Face<'_>, disk: Disk<'_>) -> Result<Response, Failure> {
    let peers = peers::load_status(&disk, face.config);
    let view = View::open(disk);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "crowny-fed" }
                style { (STYLE) }
            }
            body {
                h1 { "crowny-fed" }
                (peer_table(&peers))
                (federation(&view))
            }
        }
    };
    Ok(Response::html(page.into_string()))
}

fn peer_table(peers: &Result<Option<Vec<PeerStatus>>, Failure>) -> Markup {
    html! {
        h2 { "Peers" }
        @match peers {
            Err(failure) => p { (failure.message) },
            Ok(None) => p { "No peer judged yet." },
            Ok(Some(rows)) => table {
                tr { th { "node" } th { "판정" } th { "http" } th { "seconds" } th { "동기화" } th { "reason" } th { "checked" } }
                @for row in rows {
                    tr {
                        td { (row.id) }
                        td { (row.judgement.word()) " " (row.judgement.english()) }
                        td { (format!("{:03}", row.http)) }
                        td { (format!("{}.{:03}", row.ms / 1_000, row.ms % 1_000)) }
                        td { (row.in_sync.word()) }
                        td { (row.reason) }
                        td { (row.checked_at) }
                    }
                }
            }
        }
    }
}

fn federation(view: &Result<View<'_>, Failure>) -> Markup {
    html! {
        h2 { "Federation" }
        @match view {
            Err(failure) => p { (failure.message) },
            Ok(view) => {
                p { (view.checkpoint.origin) ": " (view.checkpoint.size) " lines, root " code { (view.checkpoint.root) } }
                table {
                    tr { th { "node" } th { "liveness" } th { "incarnation" } }
                    @for (id, member) in view.fold.membership.members() {
                        tr {
                            td { (id) }
                            td { (member.standing.liveness.word()) }
                            td { (member.standing.incarnation.value()) }
                        }
                    }
                }
            }
        }
    }
}
