//! Three gateways on three machines, each its own anchor, each with the other two in its roster.

use crowny_fed::cli::{Colour, Common, Lang, Peers};
use crowny_fed::config::assemble;
use crowny_fed::cycle::founding::{Founding, found};
use crowny_fed::cycle::tick::{self, Ended};
use crowny_fed::error::Failure;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::sim::disk::FAULTS;
use crowny_fed::sim::world::{SimHost, World};
use std::path::Path;

pub struct Three {
    pub world: World,
    pub names: Vec<String>,
    pub hosts: Vec<SimHost>,
}

impl Three {
    pub fn found(seed: u64) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (1..=3).map(|n| format!("10.0.0.{n}:9160")).collect();
        let hosts: Vec<SimHost> = (1..=3).map(|n| world.add(&names[n - 1], config(n))).collect();
        for (at, host) in hosts.iter().enumerate() {
            begin(host, at + 1);
        }
        Three { world, names, hosts }
    }

    /// One random mishap, or none.
    pub fn trouble(&self) {
        let pick = |bound: usize| self.world.below(bound as u64) as usize;
        let host = &self.hosts[pick(3)];
        let (from, to) = (&self.names[pick(3)], &self.names[pick(3)]);
        match pick(10) {
            0 => self.world.link(from, to, false),
            1 => self.world.link(from, to, true),
            2 => host.serve(false),
            3 => host.serve(true),
            4 | 5 => {
                let fault = FAULTS[pick(FAULTS.len())];
                host.disk(|disk| disk.plan(pick(30) as u64, fault));
            }
            6 => host.reboot(true),
            7 => host.step_clock(self.world.below(4_000_000) as i64 - 2_000_000),
            8 => self.world.lose(self.world.below(400)),
            _ => self.world.pass(self.world.below(600_000)),
        }
    }

    /// All troubles over.
    pub fn heal(&self) {
        self.world.lose(0);
        for (host, from) in self.hosts.iter().zip(&self.names) {
            host.serve(true);
            host.disk(|disk| disk.restart());
            self.names.iter().for_each(|to| self.world.link(from, to, true));
        }
    }
}

pub fn tick(host: &SimHost) -> Result<Ended, Failure> {
    tick::run(host, &host.config(), false)
}

fn config(n: usize) -> crowny_fed::config::Config {
    let common = Common {
        dir: format!("/n{n}").into(),
        config: None,
        quiet: true,
        verbose: 0,
        color: Colour::Never,
        lang: Lang::En,
    };
    assemble(&common, &Peers::default(), None, Path::new("/")).unwrap()
}

fn begin(host: &SimHost, n: usize) {
    let founding = Founding {
        origin: Some(format!("sim.example/n{n}")),
        id: NodeId::parse(&format!("n{n}")).unwrap(),
        urls: Vec::new(),
        services: Vec::new(),
        config_text: String::new(),
    };
    let config = host.config();
    found(host, &config.layout, &founding).unwrap();
    let rows: String =
        (1..=3).map(|peer| format!("n{peer}|10.0.0.{peer}|9160|edge|active\n")).collect();
    host.disk(|disk| disk.put(&config.peers, rows.as_bytes()));
}
