//! How the acts look at gw1: by its verbs, its files and its HTTP face, each answer a claim.

use super::claims::Teller;
use super::stage::{Gateway, Stage};
use crate::error::Failure;
use serde_json::{Value, json};

/// How a line about gw2 begins, in the status file and in the failover list.
pub(super) const GW2_ROW: &str = "gw2|127.0.0.1|";

/// The stage, and who tells what happens on it.
pub(super) struct Scene<'a> {
    pub(super) stage: &'a Stage,
    pub(super) teller: &'a Teller,
}

/// What a verdict line about gw2 has to say.
pub(super) struct Verdict<'a> {
    pub(super) to: &'static str,
    pub(super) tick: u64,
    pub(super) waited: u64,
    pub(super) address: &'a str,
}

impl Scene<'_> {
    /// A verb of gw1's operator that must succeed; its standard output.
    pub(super) fn verb(&self, args: &[&str]) -> Result<String, Failure> {
        let mut full = vec!["--dir", "."];
        full.extend(args);
        let ran = self.stage.run("gw1", &full)?;
        let claim = format!("crowny-fed {} exits 0 ({})", args.join(" "), ran.stderr.trim());
        self.teller.same(&claim, ran.code, Some(0))?;
        Ok(ran.stdout)
    }

    /// A verb's JSON.
    pub(super) fn json(&self, args: &[&str]) -> Result<Value, Failure> {
        parse(&self.verb(args)?)
    }

    /// One tick, which must print exactly `expected`.
    pub(super) fn tick(&self, expected: &str) -> Result<(), Failure> {
        self.teller.same("a tick prints its changes", self.verb(&["tick"])?.as_str(), expected)
    }

    /// The rows of the published map.
    pub(super) fn map(&self) -> Result<Vec<String>, Failure> {
        let text = self.verb(&["routes"])?;
        let file = self.stage.read("gw1/federated-routes.txt")?;
        self.teller.holds("routes prints the file", text.as_bytes() == file)?;
        Ok(text.lines().filter(|row| !row.starts_with('#')).map(str::to_owned).collect())
    }

    /// The failover list, which must name exactly `expected`.
    pub(super) fn failover(&self, expected: &[&Gateway]) -> Result<(), Failure> {
        let lines: String =
            expected.iter().map(|it| format!("{}|127.0.0.1|{}\n", it.id, it.port)).collect();
        self.teller.same("the failover list is right", self.verb(&["failover"])?, lines)
    }

    /// Liveness and incarnation of a member, by `status`.
    pub(super) fn standing(&self, node: &str) -> Result<String, Failure> {
        let status = self.json(&["status", "--json"])?;
        let members = status["members"].as_array().into_iter().flatten();
        let found = members.clone().find(|member| member["node"] == node);
        let member = found.unwrap_or(&Value::Null);
        let liveness = member["liveness"].as_str().unwrap_or("absent");
        Ok(format!("{liveness} inc={}", member["incarnation"]))
    }

    /// The newest journal line about gw2, as `log` tells it.
    pub(super) fn told(&self) -> Result<String, Failure> {
        Ok(self.verb(&["log", "--node", "gw2", "-n", "1"])?.trim_start().to_owned())
    }

    /// Holds the newest line about gw2 against the verdict it should be, with its evidence;
    /// returns its payload.
    pub(super) fn verdict(&self, expected: &Verdict<'_>) -> Result<Value, Failure> {
        let line = self.json(&["log", "--json", "--node", "gw2", "-n", "1"])?;
        let payload = &line["payload"];
        let found = json!([payload["to"], payload["tick"], payload["waited"], payload["needed"]]);
        let wanted = json!([expected.to, expected.tick, expected.waited, 2]);
        self.teller.same("the line holds the verdict", &found, &wanted)?;
        let evidence = &payload["evidence"];
        let probe = &evidence["probe"];
        let found = json!([evidence["target"], probe["class"], probe["reason"], probe["heard"]]);
        let wanted = json!([expected.address, "failed", "refused", true]);
        self.teller.same("the line holds its evidence", &found, &wanted)?;
        Ok(payload.clone())
    }

    /// What the anchor that was never restarted says of gw2 over HTTP.
    pub(super) fn live_view(
        &self,
        gw1: &mut Gateway,
        judged: &str,
        reason: &str,
    ) -> Result<(), Failure> {
        self.teller.holds("gw1 was not restarted", gw1.runs())?;
        let shown = status_row(gw1)?;
        let expected = shown.contains(&format!("|edge|{judged}")) && shown.contains(reason);
        self.teller.holds("/q/peers is read afresh", expected)
    }

    /// Where the line of the death stands in the journal.
    pub(super) fn death(&self) -> Result<usize, Failure> {
        let log = self.verb(&["log", "--json", "--node", "gw2"])?;
        let deaths: Vec<Value> = log
            .lines()
            .filter_map(|line| parse(line).ok())
            .filter(|line| line["payload"]["to"] == "dead")
            .collect();
        self.teller.same("the journal holds one death", deaths.len(), 1)?;
        let seq = deaths[0]["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok());
        seq.ok_or_else(|| Failure::failed("the line of the death has no seq"))
    }
}

/// gw2's row of `/q/peers`, as gw1 serves it now.
pub(super) fn status_row(gw1: &Gateway) -> Result<String, Failure> {
    let peers = gw1.fetch("/q/peers")?;
    let found = peers.lines().find(|line| line.starts_with(GW2_ROW));
    found.map(str::to_owned).ok_or_else(|| Failure::failed("/q/peers has no row of gw2"))
}

/// A row of the map.
pub(super) fn row(gateway: &Gateway, state: &str, incarnation: u64) -> String {
    format!("edge|{}|{}|weight=1|{state}|inc={incarnation}", gateway.id, gateway.url())
}

/// Reads JSON.
pub(super) fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::failed(format!("no JSON, {error}: {}", text.escape_debug())))
}
