//! The bar of what may take long. Hidden by itself where standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Lines held of lines wanted.
pub(super) fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    match ProgressStyle::with_template("{bar:30} {pos}/{len} lines, {per_sec}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
