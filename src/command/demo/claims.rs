//! What the demo says, and the check each sentence has to pass first.

use super::super::print;
use crate::error::Failure;
use std::cell::Cell;
use std::fmt::Debug;

/// Tells the story and counts what was checked.
pub(super) struct Teller {
    quiet: bool,
    claims: Cell<u32>,
}

impl Teller {
    pub(super) fn new(quiet: bool) -> Self {
        Teller { quiet, claims: Cell::new(0) }
    }

    /// How many claims held.
    pub(super) fn claims(&self) -> u32 {
        self.claims.get()
    }

    /// A heading.
    pub(super) fn act(&self, title: &str) -> Result<(), Failure> {
        self.print(&format!("\n{title}\n"))
    }

    /// Sentences, indented under their heading.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        self.print(&indented("  ", text))
    }

    /// What a program printed, indented further.
    pub(super) fn show(&self, text: &str) -> Result<(), Failure> {
        self.print(&indented("    | ", text))
    }

    /// A claim that must be true.
    pub(super) fn holds(&self, claim: &str, true_now: bool) -> Result<(), Failure> {
        if !true_now {
            return Err(broken(claim, ""));
        }
        self.claims.set(self.claims.get() + 1);
        Ok(())
    }

    /// A claim that two values are equal; both are named where they are not.
    pub(super) fn same<L, R>(&self, claim: &str, found: L, expected: R) -> Result<(), Failure>
    where
        L: PartialEq<R> + Debug,
        R: Debug,
    {
        if found != expected {
            return Err(broken(claim, &format!(": found {found:?}, expected {expected:?}")));
        }
        self.holds(claim, true)
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        if self.quiet { Ok(()) } else { print::out(text) }
    }
}

fn broken(claim: &str, detail: &str) -> Failure {
    Failure::failed(format!("the demo claims that {claim}, which does not hold{detail}"))
        .hint("crowny-fed demo --keep leaves the folder behind to look into")
}

fn indented(margin: &str, text: &str) -> String {
    text.lines().map(|line| format!("{margin}{line}").trim_end().to_owned() + "\n").collect()
}
