//! Where one pull stands: lines that came and are not proven yet, and when to give a server up.

use crate::journal::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::journal::prefix::Prefix;

/// How often a server's pages may break off before it is given up.
const CUTS_MAX: usize = 8;
/// Most bytes of lines that may wait for the line that names the key they are signed with.
const CARRIED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What is asked for next.
pub(super) struct Asking {
    /// Whole lines that nothing proves yet: of pages that broke off, or under the signature of a key
    /// that only a later line names.
    pub(super) carried: Vec<Vec<u8>>,
    /// The journal with them at its end; `None` where there are none.
    pub(super) reached: Option<Prefix>,
    /// Bytes of lines asked for.
    pub(super) most: u64,
    /// Pages that broke off.
    pub(super) cuts: usize,
    /// Pages under a key that no line has named yet.
    pub(super) unproven: u64,
}

/// What a page came to.
pub(super) enum Step {
    /// More is to come.
    Further,
    /// The checkpoint's end is reached.
    Whole,
    /// 409, with what it said.
    Unknown(Vec<u8>),
    /// This server is of no use now.
    GivenUp(String),
}

impl Asking {
    /// Nothing has come yet.
    pub(super) fn begun() -> Asking {
        Asking { carried: Vec::new(), reached: None, most: PAGE_BYTES_MAX, cuts: 0, unproven: 0 }
    }

    /// A page broke off: a link that cuts long answers may carry shorter ones.
    pub(super) fn broke_off(&mut self, from: u64, reached: Prefix) -> Step {
        self.cuts += 1;
        let (to, least) = (reached.tip.size, self.most == PAGE_BYTES_MIN);
        self.most = (self.most / 4).max(PAGE_BYTES_MIN);
        self.reached = Some(reached);
        if self.cuts > CUTS_MAX || (to == from && least) {
            return Step::GivenUp(format!("/sync breaks off again and again after line {to}"));
        }
        Step::Further
    }

    /// The page is whole, but its signature is by a key that no line up to here names.
    pub(super) fn carry_on(&mut self, from: u64, reached: Prefix, why: &str) -> Step {
        let carried: usize = self.carried.iter().map(Vec::len).sum();
        // A page that is not full is the last, and whoever dribbles lines is not waited for.
        self.unproven += 1;
        if (carried as u64) < self.unproven * self.most / 2 {
            return Step::GivenUp(format!("/sync: {why}"));
        }
        if reached.tip.size == from || reached.forged.is_some() || carried > CARRIED_BYTES_MAX {
            return Step::GivenUp(format!("/sync: {why}"));
        }
        self.reached = Some(reached);
        Step::Further
    }
}
