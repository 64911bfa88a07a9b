//! What leaves the program: exact lengths, closed pipes, full disks, any environment.

use crate::harness::{Answer, FED, Folder, ROSTER, Ran, STATUS, Serving, fed_in, row, wait_for};
use crate::peers::Peer;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write, pipe};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn o11_lengths_count_bytes_and_head_is_get_without_its_body() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &[row("서울-1", peer.port)]);
    folder.good("d", &["probe"]);
    let serving = Serving::start(&folder, "d", 0, &[]);
    for (headers, kind) in
        [("Accept: application/json\r\n", "application/json"), ("", "text/plain; charset=utf-8")]
    {
        let got = serving.ask("GET", "/q/peers", headers);
        let text = String::from_utf8(got.body.clone()).unwrap();
        assert!(text.contains("서울-1") && text.chars().count() < text.len());
        assert_eq!(got.header("content-length"), Some(text.len().to_string().as_str()));
        assert!(got.header("content-type").unwrap().starts_with(kind), "{}", got.head);
        let head = serving.ask("HEAD", "/q/peers", headers);
        assert!(head.body.is_empty());
        assert_eq!(without_date(&head), without_date(&got));
    }
}

fn without_date(answer: &Answer) -> Vec<String> {
    let lines = answer.head.lines().map(str::to_ascii_lowercase);
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

#[test]
fn o12_slow_clients_do_not_hold_up_a_quick_one() {
    let folder = Folder::new();
    folder.write("d/x", "");
    let serving = Serving::start(&folder, "d", 0, &[]);
    let connect = || TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    let mut slow: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /q/health HTTP/1.1\r\nX-A: ").unwrap();
    }
    let mut post = connect();
    post.write_all(b"POST /q/health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{").unwrap();
    slow.push(post);
    let began = Instant::now();
    assert_eq!(serving.get("/q/health").status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let began = Instant::now();
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        while let Ok(got) = stream.read(&mut [0; 1024])
            && got > 0
        {}
    }
    assert!(began.elapsed() < Duration::from_secs(15), "they were let go by their own time-out");
}

fn many_rows(folder: &Folder, peer: &Peer) {
    let rows: Vec<String> = (0..500).map(|n| row(&format!("n{n:03}"), peer.port)).collect();
    folder.roster("d", &rows);
}

/// Ended quietly: 0, or by SIGPIPE (141 in a shell).
fn quiet(status: ExitStatus, stderr: &str) {
    assert!(status.code() == Some(0) || status.signal() == Some(13), "{status}: {stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn o13_a_reader_that_leaves_early_gets_no_panic_and_the_file_is_whole() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    many_rows(&folder, &peer);
    let mut child =
        folder.command("d", &["probe"]).stdout(closed()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    quiet(child.wait().unwrap(), &stderr);
    assert_eq!(folder.status("d").len(), 500);
    assert!(folder.text("d/피어상태.psv").ends_with("Z\n"));

    let mut child = folder
        .command("d", &["failover"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, format!("n000|127.0.0.1|{}\n", peer.port));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    quiet(child.wait().unwrap(), &stderr);
}

/// The write end of a pipe that nobody reads.
fn closed() -> Stdio {
    pipe().unwrap().1.into()
}

#[test]
fn o13_every_verb_ends_quietly_on_a_closed_pipe_and_loudly_on_a_full_disk() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.found("d", "");
    folder.roster("d", &[row("n1", peer.port)]);
    folder.good("d", &["tick"]);
    let verbs: [&[&str]; 10] = [
        &["probe"],
        &["failover"],
        &["failover", "--json"],
        &["status"],
        &["routes"],
        &["log"],
        &["verify", "--full"],
        &["root"],
        &["proof", "0"],
        &["tick", "--explain"],
    ];
    for verb in verbs {
        let output = folder.command("d", verb).stdout(closed()).output().unwrap();
        quiet(output.status, &String::from_utf8_lossy(&output.stderr));
        let mut script = Command::new("sh");
        script
            .current_dir(folder.path())
            .args(["-c", "exec \"$0\" --dir d \"$@\" >&-", FED])
            .args(verb);
        let ran = Ran::of(script);
        quiet(ran.status, &ran.err);
        let Ok(full) = File::options().write(true).open("/dev/full") else { continue };
        let output = folder.command("d", verb).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{stderr}");
    }
}

#[test]
fn o14_an_empty_status_file_is_made_anew() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.found("d", "");
    folder.roster("d", &[row("n1", peer.port)]);
    for verb in ["probe", "tick"] {
        folder.write(&format!("d/{STATUS}"), "");
        folder.good("d", &[verb]);
        assert_eq!(folder.status("d")["n1"][4], "티", "{verb}");
    }
}

#[test]
fn o14_a_reader_never_sees_half_a_status_file() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    let rows: Vec<String> = (0..40).map(|n| row(&format!("n{n}"), peer.port)).collect();
    folder.roster("d", &rows);
    folder.good("d", &["probe"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                let text = folder.text(&format!("d/{STATUS}"));
                assert!(text.ends_with('\n'), "a partial file was seen");
                assert_eq!(text.lines().count(), 41);
                looks += 1;
            }
            looks
        });
        for _ in 0..200 {
            folder.good("d", &["probe", "-q"]);
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 200);
    });
}

/// 초 and 점검시각 differ from run to run; everything else must not.
fn timeless(psv: &str) -> String {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        let kept = fields
            .iter()
            .enumerate()
            .filter(|(at, _)| line.starts_with('#') || ![6, 9].contains(at));
        kept.map(|(_, field)| *field).collect::<Vec<_>>().join("|") + "\n"
    };
    psv.lines().map(row).collect()
}

#[test]
fn o47_a_bare_environment_gives_the_same_bytes() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.found("d", "");
    folder.roster("d", &[row("서울-1", peer.port), row("n2", peer.port)]);
    folder.good("d", &["tick"]);
    let bare = |args: &[&str]| {
        let mut command = Command::new(FED);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C").env("TZ", "Asia/Seoul");
        command.current_dir(folder.path()).stdin(Stdio::null()).args(["--dir", "d"]).args(args);
        let ran = Ran::of(command);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        ran.out
    };
    let reading: [&[&str]; 8] = [
        &["failover"],
        &["status"],
        &["status", "--json"],
        &["status", "--lang", "ko"],
        &["routes"],
        &["log"],
        &["verify", "--full"],
        &["proof", "서울-1"],
    ];
    for verb in reading {
        assert_eq!(bare(verb), folder.good("d", verb), "{verb:?}");
    }
    folder.good("d", &["probe"]);
    let usual = folder.text(&format!("d/{STATUS}"));
    bare(&["probe"]);
    let found = folder.text(&format!("d/{STATUS}"));
    assert_eq!(timeless(&found), timeless(&usual));
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["d"], "nothing is written beside the folder");
}

#[test]
fn arguments_that_are_not_utf8_are_refused_or_used_and_never_a_panic() {
    let folder = Folder::new();
    let odd = OsStr::from_bytes(b"d\xff\xfe");
    let run = |args: &[&OsStr]| {
        let mut command = fed_in(folder.path());
        let output = command.args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        output.status.code()
    };
    let verb = |name: &'static str| OsStr::new(name);
    assert_eq!(run(&[odd]), Some(2));
    assert_eq!(run(&[verb("probe"), verb("--self"), odd]), Some(2));
    assert_eq!(run(&[verb("proof"), odd]), Some(2));
    assert_eq!(run(&[verb("probe"), verb("--dir"), odd]), Some(3));
    match fs::create_dir(folder.path().join(odd)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return, // APFS takes no such name
        made => made.unwrap(),
    }
    let peer = Peer::status(200);
    fs::write(folder.path().join(odd).join(ROSTER), row("n1", peer.port)).unwrap();
    assert_eq!(run(&[verb("probe"), verb("--dir"), odd]), Some(0));
    assert!(folder.path().join(odd).join(STATUS).exists());
}

#[test]
fn serve_ends_by_itself_when_it_is_asked_to() {
    let folder = Folder::new();
    folder.write("d/x", "");
    let mut child = folder
        .command("d", &["serve", "--listen", "127.0.0.1:0", "--idle-exit", "1"])
        .spawn()
        .unwrap();
    let status = wait_for("the idle exit", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}
