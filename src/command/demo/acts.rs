//! The story: founding, a healthy tick, a death, a return, and the proof of it all.

use super::claims::Teller;
use super::scene::{GW2_ROW, Scene, Verdict, parse, row, status_row};
use super::stage::{Gateway, Stage, free_ports, is_free};
use crate::error::Failure;
use serde_json::json;
use std::time::SystemTime;

const ORIGIN: &str = "demo.example/crowny";
/// Ticks by hand that all count, and a suspicion short enough to watch.
const CONFIG: &str =
    "interval = \"0\"\nsuspicion_ticks = 2\ngateway_config = \"../live/gateway.yaml\"\n";
const GATEWAY_CONFIG: &str = "live/gateway.yaml";

/// Plays all acts; the first claim that does not hold ends it.
pub(super) fn play(stage: &Stage, teller: &Teller) -> Result<(), Failure> {
    let live = stand_in(stage)?;
    let scene = Scene { stage, teller };
    let [gw1, gw2, gw3] = scene.found()?;
    let full_map = scene.list_peers([&gw1, &gw2, &gw3])?;
    let (mut gw1, port) = scene.lose(gw1, gw2, &gw3)?;
    let gw2 = scene.bring_back(&mut gw1, port, &full_map)?;
    scene.prove(&gw1)?;
    scene.leave([gw1, gw2, gw3], &live)
}

/// Bytes and time of the file that stands for the live gateway's configuration.
fn stand_in(stage: &Stage) -> Result<(Vec<u8>, SystemTime), Failure> {
    stage.write(GATEWAY_CONFIG, "listen: 8443\nbackends: federated-routes.txt\n")?;
    Ok((stage.read(GATEWAY_CONFIG)?, stage.written_at(GATEWAY_CONFIG)?))
}

impl Scene<'_> {
    fn found(&self) -> Result<[Gateway; 3], Failure> {
        self.teller.act("1. A federation is founded, and three gateways run")?;
        let ports = free_ports()?;
        for id in ["gw1", "gw2", "gw3"] {
            self.stage.write(&format!("{id}/crowny-fed.toml"), CONFIG)?;
        }
        let service = format!("edge=http://127.0.0.1:{}", ports[0]);
        self.verb(&["init", "--origin", ORIGIN, "--id", "gw1", "--service", &service])?;
        let root = self.json(&["root", "--json"])?;
        self.teller.same("the journal begins with 3 lines", &root["size"], &json!(3))?;
        self.teller.same("the root is signed for the origin", &root["origin"], &json!(ORIGIN))?;
        self.teller.say(&format!(
            "gw1 founded {ORIGIN}: keys of its own, and a journal of 3 lines under a signed root."
        ))?;
        let gateways = [
            self.stage.serve("gw1", ports[0])?,
            self.stage.serve("gw2", ports[1])?,
            self.stage.serve("gw3", ports[2])?,
        ];
        self.one_configuration(&gateways)?;
        Ok(gateways)
    }

    fn one_configuration(&self, gateways: &[Gateway; 3]) -> Result<(), Failure> {
        let mut hashes = Vec::new();
        for gateway in gateways {
            let health = parse(&gateway.fetch("/q/health")?)?;
            self.teller.same(
                "a process answers by its name",
                &health["node"],
                &json!(gateway.id),
            )?;
            hashes.push(health["config_sha256"].clone());
            let (id, pid, url) = (gateway.id, gateway.pid(), gateway.url());
            self.teller.say(&format!("{id} is process {pid} and answers at {url}/q/health."))?;
        }
        let first = hashes[0].as_str().unwrap_or_default().to_owned();
        self.teller.holds("the configuration has a SHA-256", first.len() == 64)?;
        self.teller.holds("all see the same one", hashes.iter().all(|it| *it == hashes[0]))?;
        self.teller.say(&format!(
            "All three report the same gateway.yaml, SHA-256 {}...; it is only ever read.",
            &first[..12]
        ))
    }

    fn list_peers(&self, [gw1, gw2, gw3]: [&Gateway; 3]) -> Result<Vec<String>, Failure> {
        self.teller.act("2. Two peers are listed, and a tick finds them well")?;
        let roster: String =
            [gw2, gw3].map(|it| format!("{}|127.0.0.1|{}|edge|active\n", it.id, it.port)).concat();
        self.stage.write("gw1/피어목록.psv", &roster)?;
        self.teller.say("This is the roster of gw1, 피어목록.psv:")?;
        self.teller.show(&roster)?;
        self.tick("gw2 listed\ngw3 listed\n")?;
        let expected = [row(gw1, "alive", 0), row(gw2, "alive", 0), row(gw3, "alive", 0)];
        self.teller.same("the map has one row a gateway", self.map()?, expected.to_vec())?;
        self.teller.say("One tick probed both, journalled them and published the route map:")?;
        self.teller.show(&expected.join("\n"))?;
        self.quiet_tick()?;
        self.teller.say("The next tick finds no change: it prints nothing and appends nothing.")?;
        self.failover(&[gw2, gw3])?;
        self.teller.say("To fail over to: gw2, then gw3 (roster order, gw1 leaves itself out).")?;
        Ok(expected.to_vec())
    }

    fn quiet_tick(&self) -> Result<(), Failure> {
        let before = self.stage.read("gw1/nodes.ndjson")?;
        self.tick("")?;
        let after = self.stage.read("gw1/nodes.ndjson")?;
        self.teller.holds("an idle tick leaves the journal alone", before == after)
    }

    fn lose(
        &self,
        mut gw1: Gateway,
        gw2: Gateway,
        gw3: &Gateway,
    ) -> Result<(Gateway, u16), Failure> {
        self.teller.act("3. gw2 dies: alive -> suspect -> dead")?;
        let (pid, suspect_row) = (gw2.pid(), row(&gw2, "suspect", 0));
        let address = format!("127.0.0.1:{}", gw2.port);
        let port = gw2.kill();
        self.teller.holds("the port of a killed process is free", is_free(port))?;
        self.teller.say(&format!("Process {pid} got SIGKILL; nothing listens on {address}."))?;
        self.doubt(&gw1, (&suspect_row, &address), gw3)?;
        self.bury((&gw1, gw3), &address)?;
        self.live_view(&mut gw1, "타|000|", "refused")?;
        self.teller.say("The gateway never stopped serving, and its /q/peers shows it already:")?;
        self.teller.show(&status_row(&gw1)?)?;
        Ok((gw1, port))
    }

    /// First failed probe: suspect, still routed, last to fail over to.
    fn doubt(
        &self,
        gw1: &Gateway,
        (suspect_row, address): (&str, &str),
        gw3: &Gateway,
    ) -> Result<(), Failure> {
        self.tick("gw2 alive -> suspect (probe-failed)\n")?;
        self.verdict(&Verdict { to: "suspect", tick: 3, waited: 0, address })?;
        self.teller
            .say("Tick 3: its probe is refused. One failure makes a suspect, not a dead:")?;
        self.teller.show(&self.told()?)?;
        let map = [row(gw1, "alive", 0), row(gw3, "alive", 0), suspect_row.to_owned()];
        self.teller.same("a suspect stays in the map, last", self.map()?, map.to_vec())?;
        let list = self.verb(&["failover"])?;
        let last = list.lines().last().unwrap_or_default();
        self.teller.holds("a suspect stays in the list, last", last.starts_with(GW2_ROW))?;
        self.teller.say("It stays in the map and in the failover list, behind those alive.")?;
        let explained = self.verb(&["tick", "--explain"])?;
        let waits = explained.contains("tick 4 (counted)")
            && explained.contains("suspect for 1 of 2 failed healthy ticks");
        self.teller.holds("suspicion counts ticks", waits)?;
        self.teller.say("Tick 4: refused again; it has been suspect for 1 of 2 ticks.")
    }

    /// Suspicion runs out: dead, out of map and list, heirs named.
    fn bury(&self, (gw1, gw3): (&Gateway, &Gateway), address: &str) -> Result<(), Failure> {
        self.tick("gw2 suspect -> dead (suspicion-expired)\n")?;
        let death = self.verdict(&Verdict { to: "dead", tick: 5, waited: 2, address })?;
        let heirs = json!({"edge": ["gw1", "gw3"]});
        self.teller.same("the line names the heirs", &death["heirs"], &heirs)?;
        self.teller
            .say("Tick 5: refused for the third time. The journal says why, and who takes over:")?;
        self.teller.show(&self.told()?)?;
        let map = [row(gw1, "alive", 0), row(gw3, "alive", 0)];
        self.teller.same("a dead gateway leaves the map", self.map()?, map.to_vec())?;
        self.failover(&[gw3])?;
        self.teller.say("The route map is down to two rows, the failover list to gw3:")?;
        self.teller.show(&map.join("\n"))?;
        self.teller.same("status agrees", self.standing("gw2")?, "dead inc=0")?;
        self.teller.say("crowny-fed status:")?;
        self.teller.show(&self.verb(&["status"])?)
    }

    fn bring_back(
        &self,
        gw1: &mut Gateway,
        port: u16,
        full_map: &[String],
    ) -> Result<Gateway, Failure> {
        self.teller.act("4. gw2 comes back")?;
        let gw2 = self.stage.serve("gw2", port)?;
        self.tick("gw2 dead -> alive (answered)\n")?;
        self.teller.same(
            "a return raises the incarnation",
            self.standing("gw2")?,
            "alive inc=1",
        )?;
        let pid = gw2.pid();
        self.teller.say(&format!("Process {pid} took its place. One answer, and it is alive:"))?;
        self.teller.show(&self.told()?)?;
        let back = row(&gw2, "alive", 1);
        let expected = [full_map[0].clone(), back, full_map[2].clone()];
        self.teller.same("the map is whole again", self.map()?, expected.to_vec())?;
        self.live_view(gw1, "티|200|", "")?;
        self.teller.say(
            "The map is whole again. The incarnation rose from 0 to 1, so that no late rumour of\n\
             the old death can undo the return:",
        )?;
        self.teller.show(&expected.join("\n"))?;
        Ok(gw2)
    }

    fn prove(&self, gw1: &Gateway) -> Result<(), Failure> {
        self.teller.act("5. Nobody has to be believed")?;
        let root = self.json(&["root", "--json"])?;
        let audit = self.json(&["verify", "--full", "--json"])?;
        self.teller.same("the disk has the signed size", &audit["size"], &root["size"])?;
        self.teller.same("the disk has the signed root", &audit["root"], &root["root"])?;
        self.teller.say("verify --full read the journal from its first byte on:")?;
        self.teller.show(&self.verb(&["verify", "--full"])?)?;
        let seq = self.death()?;
        let proof = self.verb(&["proof", &seq.to_string()])?;
        let served = gw1.fetch(&format!("/proof?seq={seq}"))?;
        self.teller.same("HTTP serves the same proof", &served, &proof)?;
        let journal = self.stage.read("gw1/nodes.ndjson")?;
        let line = journal.split(|byte| *byte == b'\n').nth(seq).unwrap_or_default();
        self.stage.write("elsewhere/death.proof", &proof)?;
        let vkey = root["vkey"].as_str().unwrap_or_default();
        self.check_offline((line, vkey), &format!("verified: line {seq} of "))
    }

    /// Another folder, no journal, no network: the line, its proof and the public key.
    fn check_offline(&self, (line, vkey): (&[u8], &str), expected: &str) -> Result<(), Failure> {
        let check = ["proof", "--check", "death.proof", "--line", "death.line", "--vkey", vkey];
        self.stage.write("elsewhere/death.line", line)?;
        let good = self.stage.run("elsewhere", &check)?;
        let verified = good.code == Some(0) && good.stdout.starts_with(expected);
        self.teller.holds("the proof of the death holds offline", verified)?;
        self.teller.say(
            "The line of the death, its inclusion proof and the public key went to another folder.\n\
             There, without journal or network, proof --check says:",
        )?;
        self.teller.show(&good.stdout)?;
        let mut forged = line.to_vec();
        let middle = forged.len() / 2;
        forged[middle] ^= 1;
        self.stage.write("elsewhere/death.line", &forged)?;
        let bad = self.stage.run("elsewhere", &check)?;
        let refused = bad.code == Some(5) && bad.stderr.contains("the proof does not hold");
        self.teller.holds("a changed line is refused", refused && bad.stdout.is_empty())?;
        self.teller.say("With one bit of that line changed, it exits 5:")?;
        self.teller.show(&bad.stderr)
    }

    fn leave(&self, gateways: [Gateway; 3], live: &(Vec<u8>, SystemTime)) -> Result<(), Failure> {
        self.teller.act("6. Nothing is left behind")?;
        for gateway in gateways {
            let port = gateway.kill();
            self.teller.holds("every port is free again", is_free(port))?;
        }
        let now = (self.stage.read(GATEWAY_CONFIG)?, self.stage.written_at(GATEWAY_CONFIG)?);
        self.teller.holds("the live gateway's file is as it was", now == *live)?;
        self.teller.say(
            "The three processes are gone and their ports free. The file of the live gateway has\n\
             the bytes and the time of change it had at the start.",
        )
    }
}
