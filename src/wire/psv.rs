//! `피어목록.psv` and `피어상태.psv`: the Q-peer roster and its status, in their Korean form.
//!
//! Roster: `노드ID|호스트|포트|역할|상태`. Status:
//! `노드ID|호스트|포트|역할|판정|http|초|동기화|사유|점검시각`. `#` begins a comment line.

use crate::protocol::address::Address;
use crate::protocol::member::NodeId;
use crate::protocol::probe::Judgement;
use crate::protocol::roster::{Listed, ROWS_MAX, Rejected, Roster, Row};
use std::collections::BTreeMap;

/// First line of every status file.
pub const STATUS_HEADER: &str = "# 노드ID|호스트|포트|역할|판정|http|초|동기화|사유|점검시각";
/// First line of a roster that `init` writes.
pub const ROSTER_HEADER: &str = "# 노드ID|호스트|포트|역할|상태";

/// How the peer's gateway configuration compares with ours (동기화).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSync {
    /// 티: the same SHA-256.
    Equal,
    /// 옴: another one, or none to be had; the reason says which.
    Differs,
    /// `-`: we have no configuration to compare with.
    NotCompared,
}

impl InSync {
    /// The word of the status file.
    pub fn word(self) -> &'static str {
        match self {
            InSync::Equal => "티",
            InSync::Differs => "옴",
            InSync::NotCompared => "-",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [InSync::Equal, InSync::Differs, InSync::NotCompared].into_iter().find(|s| s.word() == word)
    }
}

/// One row of the status file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Which peer.
    pub id: NodeId,
    /// Host as typed in the roster.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Free text of the roster.
    pub role: String,
    /// The last raw probe's verdict.
    pub judgement: Judgement,
    /// HTTP status; 0 is printed `000`.
    pub http: u16,
    /// Milliseconds to the response head, or until we gave up.
    pub ms: u64,
    /// Configuration comparison.
    pub in_sync: InSync,
    /// Why the verdict or the comparison is not the good one; may be empty.
    pub reason: String,
    /// RFC 3339 UTC.
    pub checked_at: String,
}

/// Reads a roster. `Err` only where the text as a whole is none (wrong encoding); every bad row
/// is set aside by itself.
pub fn parse_roster(bytes: &[u8]) -> Result<Roster, String> {
    let text = decode(bytes)?;
    let mut roster = Roster::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in content_lines(&text) {
        if roster.rows.len() == ROWS_MAX {
            roster.rejected.push(Rejected {
                line: number,
                id: None,
                reason: format!("the roster has more than {ROWS_MAX} rows; the rest is not read"),
            });
            break;
        }
        match parse_row(line) {
            Ok((id, row)) => match seen.insert(id.folded(), number) {
                None => roster.rows.push(Listed { id, row, line: number }),
                Some(first) => {
                    seen.insert(id.folded(), first);
                    let reason = format!(
                        "node '{id}' stands in line {first} already (ids are compared without case, in NFC)"
                    );
                    roster.rejected.push(Rejected { line: number, id: Some(id), reason });
                }
            },
            Err((id, reason)) => roster.rejected.push(Rejected { line: number, id, reason }),
        }
    }
    Ok(roster)
}

type BadRow = (Option<NodeId>, String);

fn parse_row(line: &str) -> Result<(NodeId, Row), BadRow> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let id = NodeId::parse(fields[0]).map_err(|error| (None, error.to_string()))?;
    let bad = |reason: String| (Some(id.clone()), reason);
    let [_, host, port, role, state] = fields[..] else {
        // With a pipe too many, it may stand in the id itself: then whose row it is, is not known.
        let whose = (fields.len() < 5).then(|| id.clone());
        return Err((
            whose,
            format!("{} columns, expected 5: 노드ID|호스트|포트|역할|상태", fields.len()),
        ));
    };
    let port = parse_port(port).map_err(bad)?;
    Address::parse(host, port).map_err(|error| bad(error.to_string()))?;
    if let Some(c) = line.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(bad(format!("control character '{}'", c.escape_default())));
    }
    if state.is_empty() {
        return Err(bad("상태 is empty, expected active or another word".to_owned()));
    }
    let row = Row { host: host.to_owned(), port, role: role.to_owned(), state: state.to_owned() };
    Ok((id, row))
}

fn parse_port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(format!("port '{}', expected 1 to 65535", text.escape_debug())),
    }
}

/// Writes the status file: header and one row a peer.
pub fn render_status(rows: &[PeerStatus]) -> String {
    let mut text = String::from(STATUS_HEADER);
    text.push('\n');
    for row in rows {
        text.push_str(&format!(
            "{}|{}|{}|{}|{}|{:03}|{}.{:03}|{}|{}|{}\n",
            row.id,
            row.host,
            row.port,
            row.role,
            row.judgement.word(),
            row.http,
            row.ms / 1_000,
            row.ms % 1_000,
            row.in_sync.word(),
            one_field(&row.reason),
            row.checked_at,
        ));
    }
    text
}

/// Reads a status file; the error names the first line that is no row.
pub fn parse_status(bytes: &[u8]) -> Result<Vec<PeerStatus>, String> {
    let text = decode(bytes)?;
    content_lines(&text)
        .map(|(number, line)| {
            parse_status_row(line).ok_or_else(|| {
                format!("line {number} is no status row, expected {}", &STATUS_HEADER[2..])
            })
        })
        .collect()
}

fn parse_status_row(line: &str) -> Option<PeerStatus> {
    let fields: Vec<&str> = line.split('|').collect();
    let [id, host, port, role, judgement, http, seconds, in_sync, reason, checked_at] = fields[..]
    else {
        return None;
    };
    let (whole, thousandths) = seconds.split_once('.')?;
    let ms = whole.parse::<u64>().ok()?.checked_mul(1_000)? + thousandths.parse::<u64>().ok()?;
    Some(PeerStatus {
        id: NodeId::parse(id).ok()?,
        host: host.to_owned(),
        port: port.parse().ok()?,
        role: role.to_owned(),
        judgement: Judgement::parse(judgement)?,
        http: http.parse().ok()?,
        ms,
        in_sync: InSync::parse(in_sync)?,
        reason: reason.to_owned(),
        checked_at: checked_at.to_owned(),
    })
}

/// UTF-8 with or without BOM; anything else is an error that names the encoding.
fn decode(bytes: &[u8]) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("the file is UTF-16, expected UTF-8: save it again as UTF-8".to_owned());
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let good = &bytes[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        format!(
            "line {line} is not UTF-8 (byte offset {}; CP949, perhaps?): save the file again as UTF-8",
            good.len()
        )
    })
}

/// Lines that say something, with their numbers; CRLF tolerated, last line kept.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

/// A reason is free text of other people's making: it must stay in its column and on its line.
fn one_field(text: &str) -> String {
    text.chars().map(|c| if c == '|' || c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(roster: &Roster) -> Vec<&str> {
        roster.rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn bom_crlf_comments_and_a_missing_last_newline_change_nothing() {
        let text = "\u{feff}n1|127.0.0.1|18003|edge|active\r\n# 주석\r\n\r\nn2|127.0.0.1|18004|edge|active";
        let roster = parse_roster(text.as_bytes()).unwrap();
        assert_eq!(ids(&roster), ["n1", "n2"]);
        assert_eq!(roster.rows[1].row.state, "active");
        assert_eq!(roster.rows[1].line, 4);
        assert!(roster.rejected.is_empty());
    }

    #[test]
    fn another_encoding_is_named_and_never_read_as_an_empty_roster() {
        let utf16: Vec<u8> = std::iter::once(0xfeff_u16)
            .chain("n1|127.0.0.1|1|e|active".encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        assert!(parse_roster(&utf16).unwrap_err().contains("UTF-16"));
        assert!(parse_roster(b"n1|127.0.0.1|1|e|active\nn\xff|a").unwrap_err().contains("line 2"));
    }

    #[test]
    fn each_bad_row_is_named_by_line_and_reason_and_shifts_no_field() {
        let text = "n1|127.0.0.1|18003|edge|active\nn2|127.0.0.1|18004|edge|x | y|active\nn3|127.0.0.1|70000|edge|active\nn4|127.0.0.1|+80|edge|active\nn5|127.0.0.1||edge|active\n n6 |127.0.0.1|18006|edge| active \nn7|127.0.0.1|18007\nN1|127.0.0.1|1|edge|active\n";
        let roster = parse_roster(text.as_bytes()).unwrap();
        assert_eq!(ids(&roster), ["n1", "n6"]);
        assert_eq!(roster.rows[1].row.state, "active");
        let lines: Vec<usize> = roster.rejected.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 7, 8]);
        assert!(roster.rejected[5].reason.contains("line 1"));
    }

    #[test]
    fn a_status_row_reads_back_and_a_hostile_reason_stays_in_its_column() {
        let row = PeerStatus {
            id: NodeId::parse("서울-1").unwrap(),
            host: "127.0.0.1".into(),
            port: 18001,
            role: "edge".into(),
            judgement: Judgement::Down,
            http: 0,
            ms: 3_021,
            in_sync: InSync::NotCompared,
            reason: "not-http: a|b\nc".into(),
            checked_at: "2026-11-30T00:00:00Z".into(),
        };
        let text = render_status(std::slice::from_ref(&row));
        assert!(text.contains("|타|000|3.021|-|not-http: a b c|"));
        let read = parse_status(text.as_bytes()).unwrap();
        assert_eq!((read[0].ms, read[0].judgement), (3_021, Judgement::Down));
        assert!(parse_status(b"half|a|row").is_err());
        assert!(parse_status(b"").unwrap().is_empty());
    }
}
