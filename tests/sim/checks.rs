//! What must hold after every step, whatever happened.

use crowny_fed::journal::checkpoint::Checkpoint;
use crowny_fed::journal::note::SignedNote;
use crowny_fed::protocol::member::Liveness;
use crowny_fed::sim::world::SimHost;
use crowny_fed::store::audit::{Depth, audit};
use crowny_fed::store::disk::Disk;
use crowny_fed::store::view::View;
use crowny_fed::wire::routes::split;
use std::path::Path;

/// What a node has published so far and can never take back.
#[derive(Default)]
pub struct Published {
    size: u64,
    lines: Vec<u8>,
    had_rows: bool,
}

impl Published {
    /// Published lines stay, byte for byte, and the map is whole and never emptied.
    pub fn only_grew(&mut self, host: &SimHost, seed: u64) {
        let layout = host.config().layout;
        let Some(root) = bytes(host, &layout.root()) else {
            panic!("SEED={seed}: the root file is gone")
        };
        let note = SignedNote::parse(&root).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        let size = Checkpoint::parse(&note.body).unwrap().size;
        assert!(size >= self.size, "SEED={seed}: from {} to {size} lines", self.size);
        let journal = journal(host);
        assert!(journal.starts_with(&self.lines), "SEED={seed}: a published line changed");
        let end = journal
            .split_inclusive(|byte| *byte == b'\n')
            .take(size as usize)
            .map(<[u8]>::len)
            .sum();
        (self.size, self.lines) = (size, journal[..end].to_vec());
        if let Some(map) = bytes(host, &layout.routes()) {
            let map = String::from_utf8(map).unwrap();
            let (_, rows) = split(&map).unwrap_or_else(|| panic!("SEED={seed}: half a map: {map}"));
            let has_rows = rows.lines().count() > 1;
            assert!(has_rows || !self.had_rows, "SEED={seed}: the map was emptied");
            self.had_rows |= has_rows;
        }
    }
}

/// Everything on disk agrees with everything else.
pub fn whole(host: &SimHost, seed: u64) {
    let layout = host.config().layout;
    let disk = Disk { host, layout: &layout };
    audit(&disk, Depth::Full).unwrap_or_else(|failure| panic!("SEED={seed}: {failure}"));
}

/// Nobody is doubted.
pub fn all_alive(host: &SimHost, seed: u64) {
    let layout = host.config().layout;
    let view = View::open(Disk { host, layout: &layout }).unwrap();
    for (id, member) in view.fold.membership.members() {
        assert_eq!(member.standing.liveness, Liveness::Alive, "SEED={seed}: {id}");
    }
}

pub fn journal(host: &SimHost) -> Vec<u8> {
    bytes(host, &host.config().layout.journal()).unwrap_or_default()
}

pub fn map(host: &SimHost) -> String {
    String::from_utf8(bytes(host, &host.config().layout.routes()).unwrap()).unwrap()
}

/// The rows of the map, without what stamps it.
pub fn rows(host: &SimHost) -> String {
    let map = map(host);
    split(&map).map(|(_, rows)| rows.to_owned()).unwrap_or_default()
}

pub fn bytes(host: &SimHost, path: &Path) -> Option<Vec<u8>> {
    host.disk(|disk| disk.bytes(path).map(<[u8]>::to_vec))
}
