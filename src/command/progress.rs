//! How far a long run is: on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that [`show`] moves; it is hidden by itself where standard error is no terminal.
pub(super) fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Of lines.
pub(super) const LINES: &str = "{bar:30} {pos}/{len} lines, {per_sec}, {eta} left";
/// Of bytes or lines, as it comes.
pub(super) const PARTS: &str = "{bar:30} {percent} %, {eta} left";
/// Of bytes read.
pub(super) const BYTES: &str = "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";

/// What a run is to call with how much is done of how much.
pub(super) fn show(bar: &ProgressBar) -> impl Fn(u64, u64) + '_ {
    |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    }
}
