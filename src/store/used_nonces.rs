//! `used-nonces.log`: nonces of answered requests that made no line, until nobody could replay them.
//!
//! Nonces of accepted lines are in the journal. Those of requests that changed nothing are only
//! here, synced before the answer. Form: `# crowny-fed nonces since=<ts> pruned=<ts>`, then
//! `<ts> <nonce> <node>` lines; a torn last line was never answered.

use super::disk::Disk;
use crate::auth::gate::SKEW_S_MAX;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::nonces::PER_NODE_MAX;
use crate::protocol::member::NodeId;

/// How long after the file was lost signed writes wait, in seconds: twice the window, both ends of
/// which are in it.
pub const WAIT_S: u64 = 2 * SKEW_S_MAX + 1;
/// The file is written anew without what is over, once it is this long.
const REWRITE_BYTES: usize = 256 * 1024;
const MAGIC: &str = "# crowny-fed nonces";

/// The file's contents.
#[derive(Debug)]
pub struct UsedNonces {
    since_s: u64,
    pruned_s: u64,
    seen: Vec<(u64, String, String)>,
    bytes: usize,
}

impl UsedNonces {
    /// Reads the file. Absent: begun anew, and everybody waits. Unreadable: an error, and everybody
    /// waits until an operator looks.
    pub fn load(disk: &Disk<'_>, now_s: u64) -> Result<UsedNonces, Failure> {
        let path = disk.layout.used_nonces();
        let Some(bytes) = disk.read(&path)? else {
            let mut begun = UsedNonces { since_s: now_s, pruned_s: 0, seen: Vec::new(), bytes: 0 };
            begun.rewrite(disk)?;
            return Ok(begun);
        };
        let used = UsedNonces::parse(&bytes).ok_or_else(|| {
            Failure::failed(format!("{} does not read", path.display()))
                .hint("remove it: signed writes then wait ten minutes, and no replay gets through")
        })?;
        if used.bytes < bytes.len() {
            disk.cut(&path, used.bytes as u64)?;
        }
        Ok(used)
    }

    /// The file as it stands, `None` where there is none or it does not read.
    pub fn peek(disk: &Disk<'_>) -> Result<Option<UsedNonces>, Failure> {
        let bytes = disk.read(&disk.layout.used_nonces())?;
        Ok(bytes.and_then(|bytes| UsedNonces::parse(&bytes)))
    }

    /// Begins the file anew with these: everybody waits from now on.
    pub fn begin(
        disk: &Disk<'_>,
        now_s: u64,
        seen: Vec<(u64, String, String)>,
    ) -> Result<(), Failure> {
        UsedNonces { since_s: now_s, pruned_s: 0, seen, bytes: 0 }.rewrite(disk)
    }

    /// When the file was begun anew; 0 where it never was lost.
    pub fn since_s(&self) -> u64 {
        self.since_s
    }

    /// Up to which ts entries were dropped.
    pub fn pruned_s(&self) -> u64 {
        self.pruned_s
    }

    /// The entries of `from_s` and later.
    pub fn since(&self, from_s: u64) -> Vec<(u64, String, String)> {
        self.seen.iter().filter(|(ts, _, _)| *ts >= from_s).cloned().collect()
    }

    /// How many requests of the node are remembered around `now_s`.
    pub fn count(&self, node: &NodeId, now_s: u64) -> usize {
        let near = |ts: &u64| ts.abs_diff(now_s) <= SKEW_S_MAX;
        self.seen.iter().filter(|(ts, _, by)| is_by(by, node) && near(ts)).count()
    }

    /// The file as `init` leaves it: nothing was ever answered, nobody waits.
    pub fn found(disk: &Disk<'_>) -> Result<(), Failure> {
        UsedNonces { since_s: 0, pruned_s: 0, seen: Vec::new(), bytes: 0 }.rewrite(disk)
    }

    /// Seconds until signed writes are safe again after the file was lost.
    pub fn wait_s(&self, now_s: u64) -> Option<u64> {
        let ready_s = if self.since_s == 0 { 0 } else { self.since_s.saturating_add(WAIT_S) };
        (now_s < ready_s).then(|| ready_s - now_s)
    }

    /// Whether this request was answered before, or is from a time already forgotten.
    pub fn holds(&self, node: &NodeId, nonce: &str, ts: u64) -> bool {
        ts < self.pruned_s || self.seen.iter().any(|(_, seen, by)| seen == nonce && is_by(by, node))
    }

    /// Whether the node has used up its share of the window.
    pub fn is_full(&self, node: &NodeId, now_s: u64) -> bool {
        self.count(node, now_s) >= PER_NODE_MAX
    }

    /// Remembers a nonce, durably: before the answer.
    pub fn add(
        &mut self,
        disk: &Disk<'_>,
        (node, nonce, ts): (&NodeId, &str, u64),
        now_s: u64,
    ) -> Result<(), Failure> {
        let entry = (ts, nonce.to_owned(), node.to_string());
        if self.bytes > REWRITE_BYTES {
            self.pruned_s = self.pruned_s.max(now_s.saturating_sub(SKEW_S_MAX));
            self.seen.retain(|(ts, _, _)| ts.saturating_add(SKEW_S_MAX) >= now_s);
            self.seen.push(entry);
            return self.rewrite(disk);
        }
        let line = render_entry(&entry);
        disk.append(&disk.layout.used_nonces(), self.bytes as u64, line.as_bytes(), Keep::Durable)?;
        self.bytes += line.len();
        self.seen.push(entry);
        Ok(())
    }

    fn rewrite(&mut self, disk: &Disk<'_>) -> Result<(), Failure> {
        let mut text = format!("{MAGIC} since={} pruned={}\n", self.since_s, self.pruned_s);
        self.seen.iter().for_each(|entry| text.push_str(&render_entry(entry)));
        disk.put(&disk.layout.used_nonces(), text.as_bytes(), (Keep::Durable, Readers::Owner))?;
        // Where the next entry goes: one that is added to a file begun just now must not hit its head.
        self.bytes = text.len();
        Ok(())
    }

    /// Only whole lines are read: a torn one may end inside a letter.
    fn parse(bytes: &[u8]) -> Option<UsedNonces> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
        let (head, rest) = std::str::from_utf8(&bytes[..whole]).ok()?.split_once('\n')?;
        let number = |name: &str| {
            head.split(' ').find_map(|word| word.strip_prefix(name)).and_then(|n| n.parse().ok())
        };
        if !head.starts_with(MAGIC) {
            return None;
        }
        let seen = rest.lines().map(parse_entry).collect::<Option<Vec<_>>>()?;
        let (since_s, pruned_s) = (number("since=")?, number("pruned=")?);
        Some(UsedNonces { since_s, pruned_s, seen, bytes: whole })
    }
}

/// Names that differ only in case are one node.
fn is_by(by: &str, node: &NodeId) -> bool {
    by.eq_ignore_ascii_case(node.as_str())
}

fn render_entry((ts, nonce, node): &(u64, String, String)) -> String {
    format!("{ts} {nonce} {node}\n")
}

fn parse_entry(line: &str) -> Option<(u64, String, String)> {
    let mut parts = line.splitn(3, ' ');
    let (ts, nonce, node) = (parts.next()?, parts.next()?, parts.next()?);
    Some((ts.parse().ok()?, nonce.to_owned(), node.to_owned()))
}
