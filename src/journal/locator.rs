//! Finding where two journals part: sizes and the hashes of their last lines, dense near the end.
//!
//! Because each line names the one before, equal hashes at one size mean equal lines below it. So
//! one question with some places narrows the fork down to the gap between two of them, and asking
//! again inside that gap ends at the very line within a few rounds.

use super::merkle::Hash;

/// Most places in one question.
pub const PLACES_MAX: usize = 32;

/// One place: so many lines, the last with this hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Lines.
    pub size: u64,
    /// Leaf hash of the last of them.
    pub head: Hash,
}

/// Sizes to name first: 1, 2, 4, .. lines before the end, down to 1.
pub fn sizes_back_from(size: u64) -> Vec<u64> {
    let steps = (0..64).map_while(|power| size.checked_sub(1 << power)).filter(|at| *at > 0);
    let mut sizes: Vec<u64> = steps.collect();
    if size > 1 && sizes.last() != Some(&1) {
        sizes.push(1);
    }
    sizes.truncate(PLACES_MAX);
    sizes
}

/// Sizes to name next, when they share `common` lines and not `differing`: evenly between.
pub fn sizes_between(common: u64, differing: u64) -> Vec<u64> {
    let gap = differing.saturating_sub(common);
    let places = gap.saturating_sub(1).min(PLACES_MAX as u64);
    let at = |nth: u64| {
        let share = u128::from(gap) * u128::from(nth) / u128::from(places + 1);
        common + u64::try_from(share).unwrap_or(u64::MAX)
    };
    let mut sizes: Vec<u64> = (1..=places).rev().map(at).collect();
    sizes.dedup();
    sizes.retain(|size| *size > common && *size < differing);
    sizes
}

/// Prints places as the value of `?locator=`, which needs no escaping.
pub fn render(places: &[Place]) -> String {
    let each: Vec<String> =
        places.iter().map(|place| format!("{}.{}", place.size, place.head)).collect();
    each.join(",")
}

/// Reads `?locator=`.
///
/// # Errors
/// Says what a place looks like, or how many there may be.
pub fn parse(text: &str) -> Result<Vec<Place>, String> {
    let places: Option<Vec<Place>> = text.split(',').map(place).collect();
    let places = places.ok_or("locator, expected size.hash,size.hash,..")?;
    if places.len() > PLACES_MAX {
        return Err(format!("locator with {} places, at most {PLACES_MAX}", places.len()));
    }
    Ok(places)
}

fn place(text: &str) -> Option<Place> {
    let (size, head) = text.split_once('.')?;
    Some(Place { size: size.parse().ok()?, head: Hash::parse_hex(head).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::merkle::leaf_hash;

    #[test]
    fn any_fork_is_found_in_few_rounds() {
        for size in [1, 2, 3, 7, 120, 1_000, 1 << 20] {
            for fork in [0, size / 3, size - 1] {
                let (mut common, mut differing, mut rounds) = (0, size, 0);
                let mut asked = sizes_back_from(size);
                while differing - common > 1 {
                    common = asked.iter().copied().filter(|at| *at <= fork).fold(common, u64::max);
                    differing =
                        asked.iter().copied().filter(|at| *at > fork).fold(differing, u64::min);
                    asked = sizes_between(common, differing);
                    rounds += 1;
                }
                assert!(common == fork && rounds <= 6, "{size} {fork}: {common} in {rounds}");
            }
        }
    }

    #[test]
    fn a_question_reads_back_and_is_bounded() {
        let places: Vec<Place> = sizes_back_from(1 << 40)
            .into_iter()
            .map(|size| Place { size, head: leaf_hash(&size.to_le_bytes()) })
            .collect();
        assert_eq!(parse(&render(&places)), Ok(places.clone()));
        let many = vec![places[0]; PLACES_MAX + 1];
        assert!(parse(&render(&many)).is_err());
        assert!(parse("").is_err() && parse("1.x").is_err() && parse("-1.00").is_err());
    }
}
