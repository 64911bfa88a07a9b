//! How much one tick may take away (law 6).

/// Most dead and eject lines of one tick: max(1, n - ⌊0.85 n⌋), Eureka's renewal threshold turned
/// into a ceiling. `members` counts nodes and roster rows alive or suspect at the tick's start.
pub fn withdrawals_max(members: usize) -> usize {
    (members - members * 85 / 100).max(1)
}

#[cfg(test)]
mod tests {
    use super::withdrawals_max;

    #[test]
    fn follows_the_published_sizes() {
        let expected = [(0, 1), (1, 1), (6, 1), (7, 2), (10, 2), (20, 3), (100, 15)];
        for (members, most) in expected {
            assert_eq!(withdrawals_max(members), most, "n={members}");
        }
    }
}
