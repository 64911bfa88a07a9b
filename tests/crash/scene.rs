//! What a disturbed run works on: a member's folder, and an anchor that answers it. The anchor is a
//! process of its own for each connection, so every request can be disturbed call by call.

use super::harness::{Fed, Ran, Temp, binary};
use super::sender::Sender;
use crowny_fed::auth::invite::Invite;
use std::fs;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where members say that they answer: nobody does.
pub const NOWHERE: &str = "http://127.0.0.1:1";

/// A folder, perhaps an anchor beside it, and what the run needs that is in no folder.
#[derive(Debug)]
pub struct Scene {
    /// Where the disturbed run works.
    pub fed: Fed,
    /// The anchor it asks, where that is somebody else.
    pub anchor: Option<Served>,
    /// A join string, for whoever needs one.
    pub invitation: Option<String>,
    /// An offer or a key that the run reads on standard input.
    pub spoken: String,
    /// Who sends a request to the folder's own server, and what it sends, again and again.
    pub sender: Option<(Sender, Vec<u8>)>,
}

impl Scene {
    /// A folder that asks nobody.
    pub fn alone(fed: Fed) -> Scene {
        Scene { fed, anchor: None, invitation: None, spoken: String::new(), sender: None }
    }

    /// A founded anchor that members can be invited to.
    pub fn inviting() -> Fed {
        let anchor = Fed::founded();
        Ran::of(anchor.verb("register").args(["--url", NOWHERE])).expect(0);
        anchor
    }

    /// `n2`, invited and not joined yet.
    pub fn invited(alg: &str) -> Scene {
        let anchor = Scene::inviting();
        let invitation = invite(&anchor, alg);
        let anchor = Some(Served::by(anchor));
        Scene { anchor, invitation: Some(invitation), ..Scene::alone(Fed::nowhere()) }
    }

    /// `n2`, a member that joined and whose ticks count.
    pub fn joined(alg: &str) -> Scene {
        let scene = Scene::invited(alg);
        let mut join = scene.join();
        Ran::reading(&mut join, scene.input().as_bytes()).expect(0);
        scene.fed.write("crowny-fed.toml", super::harness::CONFIG);
        scene.fed.tick().expect(0);
        scene
    }

    /// The same once more, with an anchor of its own.
    pub fn copy(&self) -> Scene {
        let anchor = self.anchor.as_ref().map(|anchor| Served::by(anchor.fed.copy()));
        let copy = Scene {
            fed: self.fed.copy_or_nowhere(),
            anchor,
            invitation: self.invitation.clone(),
            spoken: self.spoken.clone(),
            // Signed anew: what is too old is refused.
            sender: self.sender.as_ref().map(|(sender, _)| (sender.clone(), sender.request())),
        };
        copy.follow();
        copy
    }

    /// Lets the member ask its own copy of the anchor.
    pub fn follow(&self) {
        let Some(anchor) = &self.anchor else { return };
        let path = self.fed.path("self.json");
        let Ok(text) = fs::read_to_string(&path) else { return };
        let mut identity: serde_json::Value = serde_json::from_str(&text).unwrap();
        identity["anchors"] = serde_json::json!([anchor.url()]);
        fs::write(path, format!("{identity:#}\n")).unwrap();
    }

    /// `join`, which reads [`Scene::input`].
    pub fn join(&self) -> Command {
        let mut join = self.fed.verb("join");
        join.args(["--url", NOWHERE, "--service", &format!("web={NOWHERE}"), "-"]);
        join
    }

    /// The join string, naming this scene's own anchor.
    pub fn input(&self) -> String {
        let (Some(text), Some(anchor)) = (&self.invitation, &self.anchor) else {
            return String::new();
        };
        let invitation = Invite::parse(text).unwrap();
        Invite { url: anchor.url(), ..invitation }.render().to_string()
    }

    /// Who writes the journal.
    pub fn journal_of(&self) -> &Fed {
        self.anchor.as_ref().map_or(&self.fed, |anchor| &anchor.fed)
    }

    /// Every folder of it.
    pub fn folders(&self) -> Vec<&Fed> {
        [&self.fed].into_iter().chain(self.anchor.as_ref().map(|anchor| &anchor.fed)).collect()
    }

    /// Waits until the anchor has ended whatever it was asked.
    pub fn settle(&self) {
        if let Some(anchor) = &self.anchor {
            anchor.settle();
        }
    }
}

/// A join string for `n2`.
pub fn invite(anchor: &Fed, alg: &str) -> String {
    let mut invite = anchor.verb("invite");
    Ran::of(invite.args(["n2", "--service", "web", "--alg", alg])).expect(0).out
}

/// A process that answers one connection on standard input.
pub fn serve_one(dir: &Path) -> Command {
    let mut serve = Command::new(binary());
    serve.args(["serve", "--stdio", "--quiet", "--dir"]).arg(dir);
    serve
}

/// An anchor and the port at which it is asked.
#[derive(Debug)]
pub struct Served {
    pub fed: Fed,
    port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Answers one connection after the other.
    pub fn by(fed: Fed) -> Served {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ended = Arc::new(AtomicBool::new(false));
        let (own_ended, dir): (_, PathBuf) = (ended.clone(), fed.dir.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own_ended.load(Ordering::Acquire) {
                    return;
                }
                answer(stream, &dir);
            }
        });
        Served { fed, port, ended, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whoever connects later is answered later: all before are done.
    fn settle(&self) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream, dir: &Path) {
    let mut serve = serve_one(dir);
    serve.stdin(OwnedFd::from(stream)).stdout(Stdio::null()).stderr(Stdio::null());
    // A folder that is gone already answers nobody.
    let _ = serve.status();
}

/// A folder for what belongs to a scene and to nobody's files.
pub fn beside(scene: &Scene) -> &Temp {
    &scene.fed.temp
}
