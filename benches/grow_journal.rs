//! Makes a long journal for measurements: `grow_journal DIR LINES` appends roster and verdict lines
//! of 100 peers to the federation in DIR, through the product's own ledger, until it has LINES.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a measuring tool, not the product

use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::record::{Evidence, Record, RosterRecord, VerdictRecord};
use crowny_fed::layout::Layout;
use crowny_fed::protocol::member::{Incarnation, Liveness, NodeId};
use crowny_fed::protocol::probe::Outcome;
use crowny_fed::protocol::roster::Row;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::draft::Draft;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;

const PEERS: u64 = 100;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = std::env::current_dir().unwrap().join(args.next().expect("usage: DIR LINES"));
    let lines: u64 = args.next().expect("usage: DIR LINES").parse().unwrap();
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(dir);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    while ledger.tip().size < lines {
        let from = ledger.tip().size;
        let to = (from + 20_000).min(lines);
        ledger.append((from..to).map(|seq| draft(seq - 3)).collect(), 1_700_000_000).unwrap();
        let keys = log_keys::signing(&disk, &identity, ledger.fold(), 1_700_000_000).unwrap();
        ledger.publish(&keys).unwrap();
    }
    println!("{} lines, {} bytes", ledger.tip().size, ledger.bytes());
}

/// First every peer is listed, then each is doubted and comes back in turn.
fn draft(at: u64) -> Draft {
    let peer = at % PEERS;
    let node = NodeId::parse(&format!("peer-{peer:03}")).unwrap();
    if at < PEERS {
        let row = Row {
            host: "127.0.0.1".to_owned(),
            port: 1,
            role: "edge".to_owned(),
            state: "active".to_owned(),
        };
        return Record::Roster(RosterRecord { node, inc: Incarnation::FIRST, row: Some(row) })
            .into();
    }
    let turn = at / PEERS - 1;
    let (from, to) = if turn.is_multiple_of(2) {
        (Liveness::Alive, Liveness::Suspect)
    } else {
        (Liveness::Suspect, Liveness::Alive)
    };
    Record::Verdict(VerdictRecord {
        service: None,
        node,
        inc: Incarnation::new(turn.div_ceil(2)).unwrap(),
        from,
        to,
        rule: "measured".to_owned(),
        waited: 0,
        needed: 6,
        tick: turn,
        evidence: Evidence {
            target: "127.0.0.1:1".to_owned(),
            probe: Some(Outcome::Failed { reason: "refused".to_owned(), heard: true, ms: 0 }),
            ..Evidence::default()
        },
        heirs: Default::default(),
        no_heir: Vec::new(),
    })
    .into()
}
