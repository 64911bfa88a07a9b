//! An anchor, members that joined it, and roster rows, each on its own machine of one world.
//!
//! Agents live at `10.0.0.N:9160`, the gateways whose services they offer at `10.0.1.N:80`, rows at
//! `10.0.2.N:8000`. The anchor is `n1`.

mod history;
mod trouble;
mod truth;

pub use history::History;

use crate::checks;
use crowny_fed::cli::{Colour, Common, Lang, Peers};
use crowny_fed::config::{Config, assemble};
use crowny_fed::cycle::enrolment::{Wanted, invite};
use crowny_fed::cycle::founding::{Founding, found};
use crowny_fed::cycle::joining::join;
use crowny_fed::cycle::speaking::{Offer, Said, Word, say};
use crowny_fed::cycle::tick::{self, Ended, Report};
use crowny_fed::error::{Failure, Kind};
use crowny_fed::protocol::member::NodeId;
use crowny_fed::protocol::service::{Service, ServiceName};
use crowny_fed::sim::world::{Place, SimHost, Weather, World};
use std::path::Path;
use truth::Truth;

/// Milliseconds from one tick to the next. Long, so that what a tick of one member waits for never
/// makes the next one's gap a long one.
pub const INTERVAL_MS: u64 = 600_000;

/// The machine of whoever takes an address over.
const STRANGER: &str = "a stranger's";

/// The origin of every federation that is alone in its world.
pub const ORIGIN: &str = "sim.example/crowny";

/// One member and its machine.
pub struct Member {
    pub id: NodeId,
    pub host: SimHost,
    /// Where its agent answers now, and where its gateway does.
    pub agent: String,
    pub gateway: String,
    /// It said goodbye.
    pub left: bool,
    /// It lies, so nothing it says is expected to be true.
    pub lies: bool,
    /// The journal says where it is.
    pub announced: bool,
}

/// Everything, and what it must not contradict.
pub struct Federation {
    pub seed: u64,
    pub world: World,
    /// The anchor first.
    pub members: Vec<Member>,
    pub origin: String,
    net: u8,
    /// Rows of the anchor's roster, by number.
    pub rows: Vec<usize>,
    pub history: History,
    pub weather: Weather,
    /// Two anchors write, so until they are one again there is no one history.
    pub two_histories: bool,
    truth: Truth,
}

impl Federation {
    /// An anchor alone, offering `web`. `settings` are lines of its configuration.
    pub fn found(seed: u64, settings: &str) -> Federation {
        Federation::beside(&World::new(seed), (seed, settings), (ORIGIN, 0))
    }

    /// The same in a world where others live, at addresses of its own: `10.NET.0.N:9160` and so on.
    pub fn beside(
        world: &World,
        (seed, settings): (u64, &str),
        (origin, net): (&str, u8),
    ) -> Federation {
        let world = world.clone();
        let anchor = machine(&world, (net, 1), settings);
        let founding = Founding {
            origin: Some(origin.to_owned()),
            id: anchor.id.clone(),
            urls: vec![format!("http://{}", anchor.agent)],
            services: vec![service(&anchor.gateway)],
            config_text: String::new(),
        };
        found(&anchor.host, &anchor.host.config().layout, &founding).unwrap();
        let mut federation = Federation {
            seed,
            world,
            members: vec![anchor],
            origin: origin.to_owned(),
            net,
            rows: Vec::new(),
            history: History::new(seed, origin),
            weather: Weather::default(),
            two_histories: false,
            truth: Truth::default(),
        };
        federation.check();
        federation
    }

    /// One more member: invited, joined, offering `web` too.
    pub fn join(&mut self, hmac: bool, settings: &str) -> usize {
        let member = machine(&self.world, (self.net, self.members.len() + 1), settings);
        let wanted = Wanted {
            node: member.id.clone(),
            services: vec![ServiceName::parse("web").unwrap()],
            ttl_s: 3_600,
            alg: if hmac { "hmac-sha256" } else { "ed25519" }.to_owned(),
            replace: false,
        };
        let anchor = &self.members[0].host;
        let invitation = invite(anchor, &anchor.config(), wanted).unwrap();
        let offer = Offer {
            urls: vec![format!("http://{}", member.agent)],
            services: vec![service(&member.gateway)],
            outbound: None,
        };
        join(&member.host, &member.host.config(), &invitation, &offer)
            .unwrap_or_else(|failure| panic!("SEED={}: {failure}", self.seed));
        self.members.push(member);
        self.check();
        self.members.len() - 1
    }

    /// Writes the anchor's roster: these rows, of role `edge`, each answering.
    pub fn list(&mut self, rows: &[usize]) {
        for row in rows {
            let machine = format!("row{row}");
            self.world.place(&row_at(*row), Place::Front { machine, status: 200 });
        }
        self.rows = rows.to_vec();
        let text: String =
            rows.iter().map(|row| format!("r{row}|10.0.2.{row}|8000|edge|active\n")).collect();
        let anchor = &self.members[0].host;
        let path = anchor.config().peers;
        anchor.disk(|disk| disk.put(&path, text.as_bytes()));
    }

    /// One tick of one member, and everything that must hold after it. `None` where it failed.
    pub fn tick(&mut self, at: usize) -> Option<Report> {
        self.try_tick(at).ok()
    }

    /// The same, with why it failed.
    pub fn try_tick(&mut self, at: usize) -> Result<Report, Failure> {
        let sound = if at == 0 { self.sound() } else { Vec::new() };
        let cut_off = self.is_cut_off();
        let start = self.history.clone();
        let before = start.unpublished(&self.members[0].host);
        let host = self.members[at].host.clone();
        let ended = tick::run(&host, &host.config(), false);
        if at == 0 && !self.two_histories {
            // Lines that a crash lost before they were published are not there any more.
            let mut new = start.unpublished(&host);
            let kept = before.iter().zip(&new).take_while(|(one, other)| one == other).count();
            new.drain(..kept);
            let report = match &ended {
                Ok(Ended::Done(report)) => Some(report.as_ref()),
                _ => None,
            };
            // Losses that an operator took for real are never held back.
            if report.is_none_or(|report| !report.decision.losses_accepted) {
                start.within_caps(&before, &new);
            }
            self.truth.judged_fairly(self.seed, &new, (&sound, cut_off, report));
        }
        self.check();
        match ended {
            Ok(Ended::Done(report)) => Ok(*report),
            Ok(Ended::InProgress) => panic!("SEED={}: a lock was left behind", self.seed),
            Err(failure) => {
                let told = format!("SEED={}: {} tells: {failure}", self.seed, self.members[at].id);
                // An anchor that was replaced has to learn that it is none any more.
                let replaced = failure.message.contains(" serialises in epoch ");
                assert!(failure.kind != Kind::Integrity || replaced, "{told}");
                Err(failure)
            }
        }
    }

    /// A member says something about itself; whether the anchor knows it now.
    pub fn say(&mut self, at: usize, word: &Word) -> Result<bool, Failure> {
        let host = self.members[at].host.clone();
        let said = say(&host, &host.config(), word);
        self.check();
        said.map(|said| matches!(said, Said::Accepted(_)))
    }

    /// A member goes to another address and says so; a stranger may take the old one over.
    pub fn move_to(&mut self, at: usize, agent: &str, stranger: bool) -> Result<bool, Failure> {
        let member = &mut self.members[at];
        let old = std::mem::replace(&mut member.agent, agent.to_owned());
        let machine = member.host.name().to_owned();
        self.world.place(agent, Place::Agent { machine });
        match stranger {
            true => {
                self.world.place(&old, Place::Front { machine: STRANGER.to_owned(), status: 200 })
            }
            false => self.world.vacate(&old),
        }
        self.announce(at)
    }

    /// A member registers anew with what it is.
    pub fn announce(&mut self, at: usize) -> Result<bool, Failure> {
        let url = format!("http://{}", self.members[at].agent);
        let said = self.say(at, &Word::Register(Offer { urls: vec![url], ..Offer::default() }));
        self.members[at].announced = matches!(said, Ok(true));
        said
    }

    /// Sets what happens on open links.
    pub fn weather(&mut self, weather: Weather) {
        self.weather = weather;
        self.world.weather(weather);
    }

    /// What must hold at any time, on every disk.
    pub fn check(&mut self) {
        if self.two_histories {
            return;
        }
        for member in &self.members {
            self.history.agrees(&member.id, &member.host);
        }
    }

    /// The two are one again: whatever all hold now is the history, looked at from its first line on.
    pub fn count_anew(&mut self) {
        self.two_histories = false;
        self.history = History::new(self.seed, &self.origin);
        self.check();
    }

    /// Everybody holds the same lines and publishes the same map of living members.
    pub fn converged(&self) -> Result<(), String> {
        let anchor = &self.members[0];
        for member in &self.members {
            let (lines, rows) = (checks::journal(&member.host), checks::rows(&member.host));
            if lines != checks::journal(&anchor.host) {
                return Err(format!("{} holds other lines than the anchor", member.id));
            }
            if rows != checks::rows(&anchor.host) {
                let anchors = checks::rows(&anchor.host);
                return Err(format!("{} publishes\n{rows}the anchor\n{anchors}", member.id));
            }
        }
        self.history.doubts_nobody()
    }
}

/// The address of a row.
pub fn row_at(row: usize) -> String {
    format!("10.0.2.{row}:8000")
}

fn machine(world: &World, (net, number): (u8, usize), settings: &str) -> Member {
    let agent = format!("10.{net}.0.{number}:9160");
    let gateway = format!("10.{net}.1.{number}:80");
    let host = world.add(&agent, config(number, settings));
    world.place(&gateway, Place::Front { machine: agent.clone(), status: 200 });
    Member {
        id: NodeId::parse(&format!("n{number}")).unwrap(),
        host,
        agent,
        gateway,
        left: false,
        lies: false,
        announced: true,
    }
}

fn service(gateway: &str) -> Service {
    Service::parse(&format!("web=http://{gateway}")).unwrap()
}

fn config(number: usize, settings: &str) -> Config {
    let common = Common {
        dir: format!("/n{number}").into(),
        config: None,
        quiet: true,
        verbose: 0,
        color: Colour::Never,
        lang: Lang::En,
    };
    let text = format!("interval = \"10m\"\n{settings}");
    assemble(&common, &Peers::default(), Some(&text), Path::new("/")).unwrap()
}
