//! What scenarios command.

use super::trace;
use crate::federation::{Federation, INTERVAL_MS};
use crate::{checks, lies};
use crowny_fed::cycle::enrolment::{revoke, rotate_log_key};
use crowny_fed::cycle::loading::accept_loss;
use crowny_fed::cycle::speaking::Word;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::sim::world::{Place, SimHost};
use crowny_fed::store::disk::Disk;
use std::collections::BTreeSet;

/// A federation, and what happened to it since it was last asked.
#[derive(Default)]
pub struct Stage {
    settings: String,
    federation: Option<Federation>,
    seen: usize,
    pub(super) told: Vec<String>,
    /// Who has no power: it does not tick.
    off: BTreeSet<usize>,
}

pub(super) type Done = Result<(), String>;

impl Stage {
    /// What happened since.
    pub fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// One command.
    pub fn act(&mut self, words: &[&str]) -> Done {
        match words {
            ["set", ..] => {
                self.settings.push_str(&words[1..].join(" "));
                self.settings.push('\n');
                return Ok(());
            }
            ["found", "and", "join", modes @ ..] => {
                let mut federation = Federation::found(1, &self.settings);
                for mode in modes {
                    federation.join(*mode == "hmac", &self.settings);
                }
                self.federation = Some(federation);
            }
            ["tick", rest @ ..] => self.tick(rest)?,
            ["show", what @ ..] => self.show(what)?,
            _ => self.happen(words)?,
        }
        self.look();
        Ok(())
    }

    pub(super) fn at(&self, id: &str) -> Result<usize, String> {
        let number: usize = id.trim_start_matches('n').parse().map_err(|_| format!("{id}?"))?;
        Ok(number - 1)
    }

    pub(super) fn fed(&mut self) -> &mut Federation {
        self.federation.as_mut().expect("a scenario begins with: found and join")
    }

    pub(super) fn host(&mut self, id: &str) -> Result<SimHost, String> {
        let at = self.at(id)?;
        Ok(self.fed().members[at].host.clone())
    }

    /// New lines of the journal.
    fn look(&mut self) {
        let Some(federation) = &self.federation else { return };
        let records = federation.history.records(self.seen);
        self.seen += records.len();
        self.told.extend(records.iter().map(trace::record));
    }

    /// `tick`, `tick x3`, `tick n1 n2 x2`: rounds of those named, or of everybody.
    fn tick(&mut self, words: &[&str]) -> Done {
        let count = words.iter().find_map(|word| word.strip_prefix('x')?.parse().ok()).unwrap_or(1);
        let named: Vec<usize> = words
            .iter()
            .filter(|word| word.starts_with('n'))
            .map(|id| self.at(id))
            .collect::<Result<_, _>>()?;
        for _ in 0..count {
            for at in 0..self.fed().members.len() {
                let runs = !self.off.contains(&at) && !self.fed().members[at].host.is_paused();
                if runs && (named.is_empty() || named.contains(&at)) {
                    self.tick_one(at);
                }
            }
            self.fed().world.pass(INTERVAL_MS);
            self.fed().world.deliver_late();
        }
        Ok(())
    }

    fn tick_one(&mut self, at: usize) {
        let id = self.fed().members[at].id.clone();
        let ended = self.fed().try_tick(at);
        self.look();
        match ended {
            Ok(report) => self.told.extend(trace::noticed(&id, &report)),
            Err(failure) => {
                let why = failure.message.split(':').next_back().unwrap_or_default();
                self.told.push(format!("{id}: failed:{why}"));
            }
        }
    }

    fn show(&mut self, what: &[&str]) -> Done {
        match what {
            ["map", id] => {
                let rows = checks::rows(&self.host(id)?);
                let rows = rows.lines().filter(|row| !row.starts_with('#'));
                let rows: Vec<String> = rows.map(|row| format!("{id} leads {row}")).collect();
                self.told.extend(rows);
            }
            ["standing"] => {
                let federation = self.fed();
                let ids: Vec<NodeId> = federation.history.ids();
                let told = ids.iter().filter_map(|id| {
                    let (liveness, inc) = federation.history.standing(id)?;
                    Some(format!("{id} {}@{inc}", liveness.word()))
                });
                let told: Vec<String> = told.collect();
                self.told.push(told.join(", "));
            }
            ["agreement"] => {
                let agreed = self.fed().converged();
                self.told.push(match agreed {
                    Ok(()) => "all hold one journal and one map, and doubt nobody".to_owned(),
                    Err(why) => why,
                });
            }
            _ => return Err("show what?".to_owned()),
        }
        Ok(())
    }

    fn happen(&mut self, words: &[&str]) -> Done {
        match words {
            ["pause", id] => self.host(id)?.pause(true),
            ["resume", id] => self.host(id)?.pause(false),
            ["stop", id] => self.power(id, false)?,
            ["start", id] => self.power(id, true)?,
            ["reboot", id] => self.host(id)?.reboot(true),
            ["sleep", ticks] => {
                let ticks: u64 = ticks.parse().map_err(|_| "ticks?".to_owned())?;
                self.fed().world.pass(ticks * INTERVAL_MS);
            }
            ["clock", id, seconds] => {
                let seconds: i64 = seconds.parse().map_err(|_| "seconds?".to_owned())?;
                self.host(id)?.set_clock_off(seconds * 1_000);
            }
            ["deafen", id, share] => {
                let name = self.host(id)?.name().to_owned();
                let share = share.parse().map_err(|_| "of 1000?".to_owned())?;
                self.fed().world.deafen(&name, share);
            }
            ["cut" | "restore" | "bar" | "allow", from, to] => self.link(words[0], from, to)?,
            ["isolate", id] => self.isolate(id, false)?,
            ["reconnect", id] => self.isolate(id, true)?,
            ["fill", id] => self.host(id)?.disk(|disk| disk.fill(true)),
            ["make-room", id] => self.host(id)?.disk(|disk| disk.fill(false)),
            ["spoil", id] => {
                let host = self.host(id)?;
                let path = host.config().layout.identity();
                host.disk(|disk| disk.put(&path, b"{\"id\":"));
                let at = self.at(id)?;
                let federation = self.fed();
                federation.history.speaks_elsewhere(&federation.members[at].id);
            }
            _ => self.decide(words)?,
        }
        Ok(())
    }

    fn power(&mut self, id: &str, on: bool) -> Done {
        let at = self.at(id)?;
        self.host(id)?.serve(on);
        let _ = if on { self.off.remove(&at) } else { self.off.insert(at) };
        Ok(())
    }

    fn link(&mut self, how: &str, from: &str, to: &str) -> Done {
        let (from, to) = (self.host(from)?, self.host(to)?);
        let world = &self.fed().world;
        match how {
            "cut" | "restore" => world.link(from.name(), to.name(), how == "restore"),
            _ => world.allow(from.name(), to.name(), how == "allow"),
        }
        Ok(())
    }

    fn isolate(&mut self, id: &str, carries: bool) -> Done {
        let host = self.host(id)?;
        let mut others: Vec<String> =
            self.fed().members.iter().map(|member| member.host.name().to_owned()).collect();
        others.extend(self.fed().rows.iter().map(|row| format!("row{row}")));
        for other in others.iter().filter(|other| *other != host.name()) {
            self.fed().world.link(host.name(), other, carries);
        }
        Ok(())
    }

    fn decide(&mut self, words: &[&str]) -> Done {
        let anchor = self.fed().members[0].host.clone();
        let at_anchor = self.fed().members[0].agent.clone();
        let mut said = None;
        match words {
            ["rows", rows @ ..] => {
                let rows: Vec<usize> = rows.iter().filter_map(|row| row.parse().ok()).collect();
                self.fed().list(&rows);
            }
            ["row", row, status] => self.place_row(row, status)?,
            ["front", id, status] => self.place(id, (true, status))?,
            ["gateway", id, status] => self.place(id, (false, status))?,
            ["join", mode, own @ ..] => {
                let other = |line: &&str| line.split(' ').next() != own.first().copied();
                let mut settings: Vec<&str> = self.settings.lines().filter(other).collect();
                let own = own.join(" ");
                settings.push(&own);
                let settings = settings.join("\n");
                self.fed().join(*mode == "hmac", &settings);
            }
            ["move", id, to, rest @ ..] => {
                let at = self.at(id)?;
                said = Some(self.fed().move_to(at, to, !rest.is_empty()).map(drop));
            }
            ["announce", id] => {
                let at = self.at(id)?;
                said = Some(self.fed().announce(at).map(drop));
            }
            ["leave", id] => {
                let at = self.at(id)?;
                said = Some(self.fed().say(at, &Word::Leave).map(drop));
            }
            ["rotate", id] => {
                let at = self.at(id)?;
                said = Some(self.fed().say(at, &Word::RotateKey).map(drop));
            }
            ["rotate-log"] => said = Some(rotate_log_key(&anchor, &anchor.config()).map(|_| ())),
            ["revoke", id] => {
                let node = NodeId::parse(id).map_err(|error| error.to_string())?;
                said = Some(revoke(&anchor, &anchor.config(), &node).map(|_| ()));
            }
            ["accept-loss"] => {
                let config = anchor.config();
                let disk = Disk { host: &anchor, layout: &config.layout };
                said = Some(accept_loss(&disk).map(|_| ()));
            }
            ["claim", id, incarnation] => {
                let incarnation = incarnation.parse().map_err(|_| "incarnation?".to_owned())?;
                let at = self.at(id)?;
                let federation = self.fed();
                federation.history.speaks_elsewhere(&federation.members[at].id);
                let status = lies::registers(&self.host(id)?, incarnation, &at_anchor);
                self.told.push(format!("{id} is answered {}", status.unwrap_or_default()));
            }
            ["accuse", id, whom, health] => self.accuse(id, whom, health)?,
            _ => said = self.reorder(words)?,
        }
        if let Some(Err(failure)) = said {
            self.told.push(format!("refused: {}", failure.message));
        }
        self.fed().check();
        Ok(())
    }

    /// Who answers instead of an agent or a gateway: a status, `gone`, or `itself`.
    fn place(&mut self, id: &str, (agent, status): (bool, &str)) -> Done {
        let at = self.at(id)?;
        let member = &self.fed().members[at];
        let machine = member.host.name().to_owned();
        let at = if agent { member.agent.clone() } else { member.gateway.clone() };
        if status == "gone" {
            self.fed().world.vacate(&at);
            return Ok(());
        }
        let place = match (status, agent) {
            ("itself", true) => Place::Agent { machine },
            ("itself", false) => Place::Front { machine, status: 200 },
            (status, _) => Place::Front {
                machine: "a gateway".to_owned(),
                status: status.parse().map_err(|_| "status?".to_owned())?,
            },
        };
        self.fed().world.place(&at, place);
        Ok(())
    }

    fn place_row(&mut self, row: &str, status: &str) -> Done {
        let at = format!("10.0.2.{row}:8000");
        let machine = format!("row{row}");
        match status.parse() {
            Ok(status) => self.fed().world.place(&at, Place::Front { machine, status }),
            Err(_) => self.fed().world.vacate(&at),
        }
        Ok(())
    }

    /// `accuse n2 n3@1 0`: an observation by n2 that misses n3, whatever is so, at that health.
    fn accuse(&mut self, id: &str, whom: &str, health: &str) -> Done {
        let (whom, inc) = whom.split_once('@').ok_or("expected node@incarnation")?;
        let inc = inc.parse().map_err(|_| "incarnation?".to_owned())?;
        let whom = NodeId::parse(whom).map_err(|error| error.to_string())?;
        let health = health.parse().map_err(|_| "health?".to_owned())?;
        let at_anchor = self.fed().members[0].agent.clone();
        lies::observes(&self.host(id)?, &[(whom, inc)], health, &at_anchor);
        Ok(())
    }
}
