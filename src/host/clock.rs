//! The two clocks and the boot they count in.

use super::Clock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads both clocks. CLOCK_BOOTTIME goes on in sleep, which std's Instant does not.
pub(super) fn read() -> Clock {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let boot = rustix::time::clock_gettime(boot_clock());
    let boot_ms = u64::try_from(boot.tv_sec).unwrap_or(0) * 1_000
        + u64::try_from(boot.tv_nsec).unwrap_or(0) / 1_000_000;
    Clock { wall_ms: u64::try_from(wall.as_millis()).unwrap_or(0), boot_ms, boot_id: boot_id() }
}

#[cfg(target_os = "linux")]
fn boot_clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Boottime
}

/// Elsewhere (macOS) the monotonic clock counts sleep.
#[cfg(not(target_os = "linux"))]
fn boot_clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Monotonic
}

#[cfg(target_os = "linux")]
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// macOS names a boot by `kern.bootsessionuuid`, which only `sysctl` reads without `unsafe`.
#[cfg(not(target_os = "linux"))]
fn boot_id() -> String {
    std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "kern.bootsessionuuid"])
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
