//! Which seeds a run tries, and on how many cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

/// `SEED=n` alone, else 1 to `few`, or to `many` under `CROWNY_FED_FULL`.
pub fn chosen((few, many): (u64, u64)) -> Vec<u64> {
    if let Ok(seed) = std::env::var("SEED") {
        return vec![seed.parse().unwrap()];
    }
    let count = if std::env::var_os("CROWNY_FED_FULL").is_some() { many } else { few };
    (1..=count).collect()
}

/// Runs every chosen seed once, and names those that failed. A world lives in one thread, so each
/// seed has one.
pub fn on_all_cores(counts: (u64, u64), run: fn(u64)) {
    let next = Mutex::new(chosen(counts).into_iter());
    let failed = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(seed) = next.lock().map(|mut seeds| seeds.next()).unwrap_or(None) {
                    if catch_unwind(AssertUnwindSafe(|| run(seed))).is_err() {
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let first = failed.first().copied().unwrap_or_default();
    assert!(failed.is_empty(), "SEED={first} replays the first of {failed:?}");
}
