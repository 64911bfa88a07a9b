//! Which seeds a run tries, and on how many cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

/// `SEED=n` alone, else 1 to `few`, or to `many` under `CROWNY_FED_FULL`.
pub fn chosen((few, many): (u64, u64)) -> Vec<u64> {
    if let Ok(seed) = std::env::var("SEED") {
        return vec![seed.parse().unwrap()];
    }
    (1..=if full() { many } else { few }).collect()
}

/// Whether the long forms are asked for.
pub fn full() -> bool {
    std::env::var_os("CROWNY_FED_FULL").is_some()
}

/// Runs every chosen seed once, and names those that failed.
pub fn on_all_cores(counts: (u64, u64), run: fn(u64)) {
    each(chosen(counts), run);
}

/// Runs every case once, and names those that failed. A world lives in one thread, so each case has
/// one.
pub fn each<T: Send>(cases: Vec<u64>, run: fn(u64) -> T) -> Vec<T> {
    let next = Mutex::new(cases.into_iter());
    let (failed, done) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(case) = next.lock().map(|mut cases| cases.next()).unwrap_or(None) {
                    match catch_unwind(AssertUnwindSafe(|| run(case))) {
                        Ok(told) => done.lock().unwrap().push(told),
                        Err(_) => failed.lock().unwrap().push(case),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let first = failed.first().copied().unwrap_or_default();
    assert!(failed.is_empty(), "SEED={first} replays the first of {failed:?}");
    done.into_inner().unwrap()
}
