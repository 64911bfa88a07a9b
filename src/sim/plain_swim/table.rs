//! SWIM's own order of precedence, kept apart from ours on purpose: the baseline must not borrow
//! the rules it is compared with. Rows are those of memberlist; `dead_is_final` gives the paper's.

/// What a member holds another to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never heard of.
    Unknown,
    /// Answers.
    Alive,
    /// Did not answer, may refute.
    Suspect,
    /// Given up.
    Dead,
}

/// One statement: a state at an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The state.
    pub state: State,
    /// The subject's counter it is about.
    pub incarnation: u32,
}

/// Whether a statement about another member replaces what is held.
pub fn replaces(held: Told, told: Told, dead_is_final: bool) -> bool {
    use State::{Alive, Dead, Suspect, Unknown};
    let (i, j) = (told.incarnation, held.incarnation);
    match (told.state, held.state) {
        (Unknown, _) => false,
        (Alive, Unknown) => true,
        // Who was never heard of cannot be doubted: the doubt is dropped, and not passed on.
        (Suspect | Dead, Unknown) => false,
        (Alive, Alive | Suspect) => i > j,
        (Alive, Dead) => !dead_is_final && i > j,
        (Suspect, Alive) => i >= j,
        // One more accuser changes nothing under a fixed time-out.
        (Suspect, Suspect | Dead) => false,
        (Dead, Alive | Suspect) => dead_is_final || i >= j,
        (Dead, Dead) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Alive, Dead, Suspect, Unknown};

    fn at(state: State, incarnation: u32) -> Told {
        Told { state, incarnation }
    }

    #[test]
    fn every_row_of_memberlists_table() {
        let rows = [
            (at(Alive, 3), at(Alive, 2), [false, true]),
            (at(Alive, 3), at(Suspect, 3), [false, true]),
            (at(Alive, 3), at(Dead, 3), [false, true]),
            (at(Suspect, 3), at(Alive, 3), [true, true]),
            (at(Suspect, 2), at(Alive, 3), [false, false]),
            (at(Suspect, 4), at(Suspect, 3), [false, false]),
            (at(Dead, 3), at(Alive, 3), [true, true]),
            (at(Dead, 2), at(Suspect, 3), [false, false]),
            (at(Dead, 9), at(Dead, 3), [false, false]),
            (at(Suspect, 9), at(Unknown, 0), [false, false]),
            (at(Alive, 1), at(Unknown, 0), [true, true]),
        ];
        for (told, held, [same, newer]) in rows {
            assert_eq!(
                replaces(held, told, false),
                same || told.incarnation > held.incarnation && newer,
                "{told:?} on {held:?}"
            );
        }
    }

    #[test]
    fn in_the_paper_dead_is_the_last_word() {
        assert!(replaces(at(Alive, 9), at(Dead, 1), true));
        assert!(!replaces(at(Dead, 1), at(Alive, 9), true));
    }
}
