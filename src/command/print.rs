//! Output: one write, colour only where wanted, a closed pipe is a quiet end.

use crate::cli::Colour;
use crate::error::Failure;
use anstream::{AutoStream, ColorChoice};
use comfy_table::{ContentArrangement, Table, presets};
use std::io::{self, Write};

/// Writes `text` to standard output. Whoever closed the pipe has what it wanted.
pub(super) fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// One JSON value and LF on standard output.
pub(super) fn json(value: &serde_json::Value) -> Result<(), Failure> {
    out(&format!("{value}\n"))
}

/// A warning on standard error.
pub(super) fn warn(text: &str) {
    // One write, so that lines of processes that share a log do not mix.
    let _ = io::stderr().lock().write_all(format!("crowny-fed: {}\n", one_line(text)).as_bytes());
}

/// A failure and its hint on standard error.
pub(super) fn failure(colour: Colour, failure: &Failure) {
    let choice = match colour {
        Colour::Auto => ColorChoice::Auto,
        Colour::Always => ColorChoice::Always,
        Colour::Never => ColorChoice::Never,
    };
    let mut stderr = AutoStream::new(io::stderr(), choice);
    let _ =
        writeln!(stderr, "crowny-fed: \u{1b}[31merror\u{1b}[0m: {}", one_line(&failure.message));
    if let Some(hint) = &failure.hint {
        let _ = writeln!(stderr, "  hint: {}", one_line(hint));
    }
}

/// A table without ruling, as wide as it needs.
pub(super) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    let trimmed: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    trimmed.join("\n") + "\n"
}

/// Messages may quote other people's bytes: they stay on one line.
pub(super) fn one_line(text: &str) -> String {
    // Bidirectional marks could turn a message around on the screen.
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| match c.is_control() || turns(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}
