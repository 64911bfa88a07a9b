//! The rules of a witness (c2sp.org/tlog-witness, "add-checkpoint"), from what it holds and what it
//! is asked to what it answers. The vector tests run them too.

use crowny_fed::auth::vkey::{CosignerKey, VerifierKey};
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint};
use crowny_fed::journal::cosignature::cosigned_message;
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::note::{NoteError, NoteSignature, SignedNote};
use crowny_fed::journal::proof::{Consistency, verify_consistency};
use ed25519_dalek::{Signer, SigningKey};

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Said {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Said {
        Said { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn size(size: u64) -> Said {
        Said { content_type: "text/x.tlog.size", ..Said::new(409, format!("{size}\n")) }
    }
}

/// An add-checkpoint request, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub old: u64,
    pub path: Vec<Hash>,
    pub note: String,
}

impl Asked {
    pub fn parse(body: &str) -> Option<Asked> {
        let (head, note) = body.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let old = lines.next()?.strip_prefix("old ")?;
        let size: u64 = old.parse().ok()?;
        let path: Vec<Hash> =
            lines.map(|line| Hash::parse_base64(line).ok()).collect::<Option<_>>()?;
        let one_spelling = size.to_string() == old && path.len() <= 63;
        one_spelling.then(|| Asked { old: size, path, note: note.to_owned() })
    }
}

/// A witness of one log.
pub struct Rules {
    pub key: SigningKey,
    pub name: String,
    pub log: VerifierKey,
    /// What it cosigned last: the checkpoint and the note it was on.
    pub latest: Option<(Checkpoint, String)>,
}

impl Rules {
    pub fn new(name: &str, seed: u8, log: VerifierKey) -> Rules {
        let key = SigningKey::from_bytes(&[seed; 32]);
        Rules { key, name: name.to_owned(), log, latest: None }
    }

    pub fn vkey(&self) -> CosignerKey {
        CosignerKey::of(&self.name, &self.key).unwrap()
    }

    pub fn size(&self) -> u64 {
        self.latest.as_ref().map_or(0, |(checkpoint, _)| checkpoint.size)
    }

    /// Check and update are one step: whoever calls holds the witness alone.
    pub fn add_checkpoint(&mut self, body: &str, now_s: u64) -> Said {
        let Some(asked) = Asked::parse(body) else { return Said::new(400, "malformed\n") };
        let note = match SignedNote::parse(&asked.note) {
            Ok(note) => note,
            // Read strictly, a line may already fail for bits that the spelling has to spare.
            Err(NoteError::SignatureLine) => return Said::new(403, "invalid signature\n"),
            Err(_) => return Said::new(400, "malformed\n"),
        };
        if note.body.split('\n').next() != Some(self.log.name()) {
            return Said::new(404, "unknown log\n");
        }
        let checkpoint = match open_checkpoint(&asked.note, &self.log) {
            Ok((checkpoint, _)) => checkpoint,
            Err(NoteError::BadSignature { .. } | NoteError::Unverified) => {
                return Said::new(403, "invalid signature\n");
            }
            Err(_) => return Said::new(400, "malformed\n"),
        };
        if asked.old > checkpoint.size {
            return Said::new(400, "old size above the checkpoint's\n");
        }
        if asked.old != self.size() {
            return Said::size(self.size());
        }
        if let Some(refused) = self.unproven(&asked, &checkpoint) {
            return refused;
        }
        let line = cosign((&self.vkey(), &self.key), &note.body, now_s);
        self.latest = Some((checkpoint, asked.note));
        Said::new(200, line.render())
    }

    fn unproven(&self, asked: &Asked, new: &Checkpoint) -> Option<Said> {
        let Some((old, _)) = &self.latest else {
            return (!asked.path.is_empty()).then(|| Said::new(422, "consistency proof\n"));
        };
        if old.size == new.size && old.root != new.root {
            return Some(Said::size(old.size));
        }
        let claim = Consistency {
            old_size: old.size,
            old_root: old.root,
            new_size: new.size,
            new_root: new.root,
            path: &asked.path,
        };
        verify_consistency(&claim).err().map(|_| Said::new(422, "consistency proof\n"))
    }
}

/// A cosignature line over `body` at `time_s`.
pub fn cosign((vkey, key): (&CosignerKey, &SigningKey), body: &str, time_s: u64) -> NoteSignature {
    let signature = key.sign(cosigned_message(body, time_s).as_bytes()).to_bytes();
    let bytes = [&time_s.to_be_bytes()[..], &signature].concat();
    NoteSignature { name: vkey.name().to_owned(), id: vkey.id(), bytes }
}
