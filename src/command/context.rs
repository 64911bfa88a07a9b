//! What every verb starts from: the checked configuration, this machine, and the right to be here.

use crate::cli::{Common, Peers};
use crate::config::{self, Config};
use crate::cycle::peers::own_id;
use crate::error::Failure;
use crate::host::dial::{Dialer, Options};
use crate::host::owner::{self, Trespass};
use crate::host::path;
use crate::host::real::RealHost;
use crate::host::{Host, Span};
use crate::layout::CONFIG;
use crate::store::disk::Disk;
use std::path::{Path, PathBuf};

/// A verb's surroundings.
pub(super) struct Context {
    /// This machine.
    pub(super) host: RealHost,
    /// Checked.
    pub(super) config: Config,
    /// As typed.
    pub(super) common: Common,
}

impl Context {
    /// Steps down from root where the state is somebody's, reads and checks the configuration,
    /// and refuses to touch what is the gateway's or another user's.
    pub(super) fn new(common: &Common, peers: &Peers) -> Result<Context, Failure> {
        let here = working_folder(&common.dir)?;
        step_down(&here.join(&common.dir))?;
        let config = assemble(common, peers, &here, owner::check_configuration)?;
        refuse_protected(&config)?;
        refuse_foreign(&config)?;
        Context::over(common, config)
    }

    /// For verbs that only read: whoever the files' permissions let may.
    pub(super) fn reading(common: &Common, peers: &Peers) -> Result<Context, Failure> {
        let here = working_folder(&common.dir)?;
        step_down(&here.join(&common.dir))?;
        let config = assemble(common, peers, &here, owner::check_unwritable)?;
        let layout = &config.layout;
        for ours in [layout.dir().to_owned(), layout.keys(), layout.state()] {
            refuse(&ours, owner::check_unwritable)?;
        }
        Context::over(common, config)
    }

    /// For `doctor`: whatever can be looked at, and everything that stands in the way of the others.
    pub(super) fn looking(common: &Common) -> Result<(Context, Vec<Failure>), Failure> {
        let (here, peers) = (working_folder(&common.dir)?, Peers::default());
        step_down(&here.join(&common.dir))?;
        let mut told = Vec::new();
        let config = match assemble(common, &peers, &here, owner::check_configuration) {
            Ok(config) => config,
            Err(failure) => {
                told.push(failure);
                config::assemble(common, &peers, None, &here)?
            }
        };
        told.extend(refuse_protected(&config).err());
        told.extend(trespasses(&config));
        let host = host(config.ca_file.clone());
        Ok((Context { host, config, common: common.clone() }, told))
    }

    fn over(common: &Common, mut config: Config) -> Result<Context, Failure> {
        let host = host(config.ca_file.clone());
        if config.own.is_none() {
            config.own = own_id(&Disk { host: &host, layout: &config.layout })?;
        }
        Ok(Context { host, config, common: common.clone() })
    }

    /// The folder's files.
    pub(super) fn disk(&self) -> Disk<'_> {
        Disk { host: &self.host, layout: &self.config.layout }
    }
}

/// This machine, asking with the system's certificates and `ca_file`.
pub(super) fn host(ca_file: Option<PathBuf>) -> RealHost {
    RealHost::new(Dialer::new(Options { ca_file, ..Options::default() }))
}

/// The working folder, which relative paths are meant from. Where it is gone, an absolute `path`
/// does without.
pub(super) fn working_folder(path: &Path) -> Result<PathBuf, Failure> {
    match std::env::current_dir() {
        Ok(here) => Ok(here),
        Err(_) if path.is_absolute() => Ok(PathBuf::from("/")),
        Err(error) => {
            Err(Failure::config(format!("no working folder: {error}")).hint("pass absolute paths"))
        }
    }
}

/// See [`owner::step_down`].
pub(super) fn step_down(state: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find myself: {error}")))?;
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    owner::step_down(state, &program, &args).map_err(|error| {
        Failure::config(format!("cannot run as the owner of {}: {error}", state.display()))
    })
}

fn assemble(
    common: &Common,
    peers: &Peers,
    here: &Path,
    check: impl Fn(&Path) -> std::io::Result<Option<Trespass>>,
) -> Result<Config, Failure> {
    let (path, required) = config::file(common);
    let path = here.join(path);
    let text = match host(None).read(&path, Span::WHOLE) {
        Ok(bytes) => Some(
            String::from_utf8(bytes)
                .map_err(|_| Failure::config(format!("{} is not UTF-8", path.display())))?,
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => None,
        Err(error) => {
            return Err(Failure::config(format!("cannot read {}: {error}", path.display())));
        }
    };
    if text.is_some() {
        refuse(&path, check)?;
    }
    config::assemble(common, peers, text.as_deref(), here)
}

/// Law 1: no output path may be, lie in or link to what is protected, and nothing in our folder may
/// lead there.
fn refuse_protected(config: &Config) -> Result<(), Failure> {
    let mut protected = config.protected.clone();
    protected.paths.extend(config.protected.paths.iter().map(|held| path::resolve(held)));
    let layout = &config.layout;
    let mut outputs = vec![layout.dir().to_owned(), config.status.clone()];
    for folder in [layout.dir().to_owned(), layout.state(), layout.tile("tile")] {
        let names = host(None).names(&folder).unwrap_or_default();
        outputs.extend(names.iter().filter(|name| !is_input(name)).map(|name| folder.join(name)));
    }
    for output in &outputs {
        protected.refuse_path(output)?;
        protected.refuse_path(&path::resolve(output))?;
    }
    Ok(())
}

/// What operators write and we only read; it may be a link to wherever they keep it.
fn is_input(name: &str) -> bool {
    name == CONFIG || name.ends_with(".psv") || name.ends_with(".pem") || name.ends_with(".yaml")
}

fn refuse_foreign(config: &Config) -> Result<(), Failure> {
    trespasses(config).into_iter().next().map_or(Ok(()), Err)
}

/// Every file of ours that others may write, or read though it is secret.
fn trespasses(config: &Config) -> Vec<Failure> {
    let layout = &config.layout;
    let ours = host(None).names(layout.dir()).unwrap_or_default();
    let ours = ours.iter().filter(|name| !is_input(name)).map(|name| layout.dir().join(name));
    let keys = host(None).names(&layout.keys()).unwrap_or_default();
    let keys = keys.iter().map(|name| layout.keys().join(name));
    let secrets = [layout.keys(), layout.state(), layout.invites(), layout.node_keys()];
    let open = std::iter::once(layout.dir().to_owned()).chain(ours);
    let open = open.filter_map(|path| refuse(&path, owner::check).err());
    let read = secrets.into_iter().chain(keys);
    let read = read.filter_map(|path| refuse(&path, owner::check_secret).err());
    let mut told: Vec<Failure> = Vec::new();
    for failure in open.chain(read) {
        if !told.contains(&failure) {
            told.push(failure);
        }
    }
    told
}

fn refuse(
    path: &Path,
    check: impl Fn(&Path) -> std::io::Result<Option<Trespass>>,
) -> Result<(), Failure> {
    let trespass = check(path)
        .map_err(|error| Failure::config(format!("cannot look at {}: {error}", path.display())))?;
    let (what, hint) = match trespass {
        None => return Ok(()),
        Some(Trespass::Owner { uid }) => (
            format!("belongs to user {uid}"),
            "run as that user; started as root, crowny-fed does so by itself".to_owned(),
        ),
        Some(Trespass::Writable { mode }) => (
            format!("may be written by others (mode {mode:03o})"),
            format!("chmod go-w {}", path.display()),
        ),
        Some(Trespass::Readable { mode }) => (
            format!("holds secrets and may be read by others (mode {mode:03o})"),
            format!("chmod go-rwx {}", path.display()),
        ),
    };
    Err(Failure::config(format!("{} {what}", path.display())).hint(hint))
}
