//! `federated-routes.txt`: the map a gateway reads.
//!
//! `# crowny-fed routes v1`, `# origin= generation= size= root=` of the last change, rows
//! `service|node|url|weight=N|alive|inc=N[|drain][|provisional][|no-heir]`, `# end <count>`. A reader that finds no end
//! line holds half a file.

use crate::journal::merkle::Hash;
use crate::protocol::route::Route;

/// First line of every map.
pub const MAGIC: &str = "# crowny-fed routes v1";

/// Which journal a map was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// The federation.
    pub origin: &'a str,
    /// One more than the last map's, never below `size`.
    pub generation: u64,
    /// Lines under the checkpoint.
    pub size: u64,
    /// Their Merkle root.
    pub root: Hash,
}

/// The rows with their end line: what has to differ for a new map to be written.
pub fn render_rows(routes: &[Route]) -> String {
    let mut text = String::new();
    for route in routes {
        text.push_str(&format!(
            "{}|{}|{}|weight={}|{}|inc={}{}{}{}\n",
            route.service,
            route.node,
            route.url,
            route.weight,
            route.liveness.word(),
            route.incarnation.value(),
            if route.drain { "|drain" } else { "" },
            if route.provisional { "|provisional" } else { "" },
            if route.no_heir { "|no-heir" } else { "" },
        ));
    }
    text.push_str(&format!("# end {}\n", routes.len()));
    text
}

/// A whole map.
pub fn render(stamp: &Stamp<'_>, rows: &str) -> String {
    format!(
        "{MAGIC}\n# origin={} generation={} size={} root={}\n{rows}",
        stamp.origin, stamp.generation, stamp.size, stamp.root
    )
}

/// The generation and the rows of an existing map; `None` where it is not a whole one.
pub fn split(text: &str) -> Option<(u64, &str)> {
    let rest = text.strip_prefix(MAGIC)?.strip_prefix('\n')?;
    let (stamp, rows) = rest.split_once('\n')?;
    let generation = stamp
        .split(' ')
        .find_map(|word| word.strip_prefix("generation="))
        .and_then(|number| number.parse().ok())?;
    let count = rows.lines().filter(|line| !line.starts_with('#')).count();
    rows.ends_with(&format!("# end {count}\n")).then_some((generation, rows))
}
