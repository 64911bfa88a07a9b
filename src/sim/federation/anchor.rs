//! The anchor's tick: ask, ask helpers, hear what members told, decide, append.

use super::{Federation, Line, bytes, doubted, number};
use crate::protocol::asking;
use crate::protocol::blind::Pulse;
use crate::protocol::contact::{Contact, Help, Said, Sign};
use crate::protocol::hearsay::{self, Told};
use crate::protocol::member::NodeId;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::{Round, decide};
use crate::sim::field::Run;
use std::collections::BTreeMap;
use std::rc::Rc;

impl Federation {
    pub(super) fn anchor_tick(&mut self, pulse: Pulse, run: &mut Run<()>) {
        let mut contacts = self.ask_agents(run);
        self.ask_helpers(&mut contacts, run);
        let told = self.fresh_observations();
        hearsay::speak(&self.nodes[0].memory, &mut contacts);
        let (own, journal) = (&self.nodes[0], Rc::clone(&self.journal));
        let accusers = hearsay::accusers(&told, &journal.membership);
        let decision = decide(&Round {
            own: &own.id,
            membership: &journal.membership,
            memory: &own.memory,
            contacts: &contacts,
            accusers: &accusers,
            witnesses: hearsay::witnesses(&told, &journal.membership, &contacts),
            pulse,
            self_check_answered: false,
            profile: &self.profile,
        });
        self.nodes[0].memory = decision.memory;
        let verdicts = decision.verdicts.into_iter();
        self.append(
            verdicts.map(|verdict| Line::Verdict(verdict.subject.node, verdict.to)).collect(),
        );
    }

    /// Whoever is doubted is told so by the question, and refutes in the answer.
    fn ask_agents(&mut self, run: &mut Run<()>) -> BTreeMap<Subject, Contact> {
        let own = &mut self.nodes[0];
        let journal = Rc::clone(&self.journal);
        let memory = (&mut own.memory, &self.profile);
        let agents = asking::whom(&journal.membership, &own.id, memory, &mut |bound| {
            run.chance.below(bound)
        });
        let (mut contacts, mut refutes) = (BTreeMap::new(), Vec::new());
        for id in agents {
            let accused = doubted(&journal.membership, &id);
            let sizes = if accused.is_some() { bytes::ACCUSE } else { bytes::HEALTH };
            let outcome = super::ask(run, (0, number(&id)), sizes);
            if let Some(accused) = accused.filter(|_| outcome.is_success()) {
                refutes.push(Line::Register(self.raise(number(&id), accused)));
            }
            contacts.insert(Subject { node: id, service: None }, Contact::from(outcome));
        }
        self.append(refutes);
        contacts
    }

    fn ask_helpers(&mut self, contacts: &mut BTreeMap<Subject, Contact>, run: &mut Run<()>) {
        let helpers = asking::helpers(&self.journal.membership, &self.nodes[0].id, contacts);
        let failed = contacts.iter_mut().filter(|(_, contact)| contact.sign() == Sign::Bad);
        for (subject, contact) in failed {
            let wanted = (&subject.node, self.profile.helpers);
            for helper in asking::choose(&helpers, wanted, &mut |bound| run.chance.below(bound)) {
                let said = help(run, number(&helper), number(&subject.node));
                contact.helped.push(Help { helper, said, reason: None });
            }
        }
    }

    /// What members have told lately.
    fn fresh_observations(&mut self) -> BTreeMap<NodeId, Told> {
        let memory = &mut self.nodes[0].memory;
        let fresh = self.observations.iter().filter_map(|(id, heard)| {
            let speaks = hearsay::note(memory, id, heard.made);
            speaks.then(|| (id.clone(), heard.told.clone()))
        });
        fresh.collect()
    }
}

/// A helper's word: it tries the subject itself.
fn help(run: &mut Run<()>, helper: usize, subject: usize) -> Said {
    if !run.exchange((0, helper), bytes::PING_REQ) {
        return Said::Silent;
    }
    match run.exchange((helper, subject), bytes::HEALTH) {
        true => Said::Reached,
        false => Said::CouldNot,
    }
}
