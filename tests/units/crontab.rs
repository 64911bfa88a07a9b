//! The crontab line: what cron does with it, and that it is silent in cron's bare environment.

use crate::run::{assert_ticks, text};

fn lines(text: &str) -> Vec<&str> {
    let is_job = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    text.lines().filter(is_job).collect()
}

/// The command as cron hands it to the shell; `Err` where cron would not run what is written.
fn command(line: &str) -> Result<&str, &'static str> {
    let mut rest = line;
    for _ in 0..5 {
        let (field, after) = rest.split_once(' ').ok_or("five time fields")?;
        let known = field.bytes().all(|b| b.is_ascii_digit() || b"*,-/".contains(&b));
        if field.is_empty() || !known {
            return Err("time fields of digits and * , - /");
        }
        rest = after.trim_start();
    }
    if rest.replace("\\%", "").contains('%') {
        return Err("cron cuts the command at a bare %");
    }
    if !rest.starts_with('/') {
        return Err("an absolute program path");
    }
    Ok(rest)
}

#[test]
fn one_line_does_it_without_flock_and_without_noise() {
    let text = text("systemd/crontab.example");
    let jobs = lines(&text);
    assert_eq!(jobs.len(), 1);
    let command = command(jobs[0]).unwrap();
    let shell = ['|', '>', '<', '&', ';', '$', '~', '"', '\'', '`'];
    assert!(!command.contains(shell), "nothing for the shell to do: {command}");
    assert_ticks(&command.split(' ').collect::<Vec<_>>());
}

#[test]
fn what_cron_would_not_run_as_written_is_refused() {
    for bad in [
        "* * * * /usr/local/bin/crowny-fed tick",
        "* * * * * crowny-fed tick",
        "* * * * * root /usr/local/bin/crowny-fed tick",
        "* * * * * /usr/local/bin/crowny-fed tick --dir /srv/100%",
        "every minute * * * /usr/local/bin/crowny-fed tick",
    ] {
        assert!(command(bad).is_err(), "{bad}");
    }
    assert!(command("*/2 * * * 1-5 /x --dir /srv/100\\%").is_ok());
}
