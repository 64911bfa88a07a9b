//! An anchor in the seeded world: exact clocks, and disks that fail on demand.

use crate::member::{Member, enrolment, fresh_nonce};
use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::auth::invite::Invite;
use crowny_fed::cli::{Colour, Common, Lang, Peers};
use crowny_fed::config::{Config, assemble};
use crowny_fed::cycle::admission::{Accepted, submit};
use crowny_fed::cycle::enrolment::{Wanted, enroll, invite};
use crowny_fed::cycle::founding::{Founding, found};
use crowny_fed::host::Host;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::sim::world::{SimHost, World};
use crowny_fed::store::audit::{Depth, audit};
use crowny_fed::store::disk::Disk;
use std::path::Path;

pub struct Simulated {
    pub world: World,
    pub host: SimHost,
    pub config: Config,
}

impl Simulated {
    pub fn found(seed: u64) -> Simulated {
        let world = World::new(seed);
        let common = Common {
            dir: "/anchor".into(),
            config: None,
            quiet: true,
            verbose: 0,
            color: Colour::Never,
            lang: Lang::En,
        };
        let config = assemble(&common, &Peers::default(), None, Path::new("/")).unwrap();
        let host = world.add("10.0.0.1:9160", config.clone());
        let founding = Founding {
            origin: Some("sim.example/fed".into()),
            id: NodeId::parse("gw1").unwrap(),
            urls: vec!["http://10.0.0.1:9160".into()],
            services: Vec::new(),
            config_text: String::new(),
        };
        found(&host, &config.layout, &founding).unwrap();
        Simulated { world, host, config }
    }

    pub fn now_s(&self) -> u64 {
        self.host.clock().wall_ms / 1_000
    }

    pub fn pass_s(&self, seconds: u64) {
        self.world.pass(seconds * 1_000);
    }

    /// Steps the anchor's wall clock.
    pub fn step_s(&self, seconds: i64) {
        self.host.step_clock(seconds * 1_000);
    }

    pub fn invite(&self, node: &str, alg: &str, replace: bool) -> Invite {
        let node = NodeId::parse(node).unwrap();
        let wanted =
            Wanted { node, services: Vec::new(), ttl_s: 3_600, alg: alg.to_owned(), replace };
        invite(&self.host, &self.config, wanted).unwrap()
    }

    pub fn enroll(&self, envelope: &Envelope) -> Result<Accepted, Refusal> {
        enroll(&self.host, &self.config, envelope.render().as_bytes())
    }

    pub fn submit(&self, kind: &str, envelope: &Envelope) -> Result<Accepted, Refusal> {
        submit(&self.host, &self.config, kind, envelope.render().as_bytes())
    }

    /// A member with an Ed25519 key, enrolled but not registered.
    pub fn member(&self, node: &str) -> Member {
        let invite = self.invite(node, "ed25519", false);
        let url = "http://10.0.0.2:9160".to_owned();
        let member = Member { url, ..Member::ed25519(invite.vkey.name(), node) };
        let envelope = enrolment(&invite, member.seed(), &fresh_nonce(), self.now_s());
        self.enroll(&envelope).unwrap();
        member
    }

    pub fn file(&self, path: &Path) -> Vec<u8> {
        self.host.disk(|disk| disk.bytes(path).map(<[u8]>::to_vec)).unwrap_or_default()
    }

    pub fn journal(&self) -> Vec<u8> {
        self.file(&self.config.layout.journal())
    }

    /// How many lines of the journal hold `text`.
    pub fn lines_with(&self, text: &str) -> usize {
        String::from_utf8(self.journal()).unwrap().matches(text).count()
    }

    /// Everything on disk agrees, every member's signature included.
    pub fn holds(&self) {
        let disk = Disk { host: &self.host, layout: &self.config.layout };
        audit(&disk, Depth::Full).unwrap();
    }
}
