//! Names to addresses, with an end.
//!
//! `getaddrinfo` cannot be told when to stop. So it runs in a thread that nobody has to wait for:
//! callers wait for its result until their own end and then leave it behind. What keeps this from
//! leaking a thread per try is the table: a name whose lookup is still out is waited for, never
//! asked a second time, and only so many lookups may be out at once.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::fault;
use crate::wire::call::Fault;

/// How a name becomes addresses; ports in them are ignored. May block as long as it likes.
pub type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The system's resolver.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
}

/// Stack of a lookup thread; resolver modules of the C library are the deepest users.
const STACK: usize = 512 * 1024;

/// All lookups of one dialer.
pub(super) struct Lookups {
    lookup: Lookup,
    out_max: usize,
    table: Mutex<BTreeMap<String, Arc<Pending>>>,
}

/// One lookup: empty while it is out.
#[derive(Default)]
struct Pending {
    found: Mutex<Option<Result<Vec<SocketAddr>, Fault>>>,
    answered: Condvar,
}

impl Lookups {
    /// At most `out_max` lookups are out at once.
    pub(super) fn new(lookup: Lookup, out_max: usize) -> Self {
        Self { lookup, out_max, table: Mutex::default() }
    }

    /// Starts a new batch: answers are forgotten, lookups still out are kept so that they are not
    /// started twice.
    pub(super) fn forget_answered(&self) {
        lock(&self.table).retain(|_, pending| pending.is_out());
    }

    /// The addresses of `name`, waiting for them no longer than `until`.
    pub(super) fn find(&self, name: &str, until: Instant) -> Result<Vec<SocketAddr>, Fault> {
        self.pending(name)?
            .wait(until)
            .unwrap_or_else(|| Err(Fault::Dns(format!("no answer for `{name}` in time"))))
    }

    /// The address of a literal with a zone. The system's resolver turns the interface into a
    /// scope number, on Linux and macOS alike; it asks nobody for that, but has the same end.
    pub(super) fn zoned(
        &self,
        ip: Ipv6Addr,
        zone: &str,
        until: Instant,
    ) -> Result<Vec<SocketAddr>, Fault> {
        self.find(&format!("{ip}%{zone}"), until).map_err(|fault| match fault {
            Fault::Dns(_) => Fault::Local(format!("unknown interface `{zone}`")),
            other => other,
        })
    }

    fn pending(&self, name: &str) -> Result<Arc<Pending>, Fault> {
        let mut table = lock(&self.table);
        if let Some(pending) = table.get(name) {
            return Ok(Arc::clone(pending));
        }
        let out = table.values().filter(|pending| pending.is_out()).count();
        if out >= self.out_max {
            return Err(Fault::Dns(format!("{out} lookups are still without an answer")));
        }
        let pending = Arc::new(Pending::default());
        self.start(name, Arc::clone(&pending))
            .map_err(|error| Fault::Local(format!("no thread for a lookup: {error}")))?;
        table.insert(name.to_owned(), Arc::clone(&pending));
        Ok(pending)
    }

    /// Runs the lookup in a thread that ends when the resolver returns, or with the process.
    fn start(&self, name: &str, pending: Arc<Pending>) -> io::Result<()> {
        let (lookup, name) = (Arc::clone(&self.lookup), name.to_owned());
        thread::Builder::new().name("lookup".into()).stack_size(STACK).spawn(move || {
            pending.answer(sort(&name, lookup(&name)));
        })?;
        Ok(())
    }
}

impl Pending {
    fn is_out(&self) -> bool {
        lock(&self.found).is_none()
    }

    fn answer(&self, found: Result<Vec<SocketAddr>, Fault>) {
        *lock(&self.found) = Some(found);
        self.answered.notify_all();
    }

    fn wait(&self, until: Instant) -> Option<Result<Vec<SocketAddr>, Fault>> {
        let left = until.saturating_duration_since(Instant::now());
        let (found, _) = self
            .answered
            .wait_timeout_while(lock(&self.found), left, |found| found.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        found.clone()
    }
}

/// Sorts a resolver's result: failing for want of descriptors is no verdict on the name.
fn sort(name: &str, found: io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>, Fault> {
    match found {
        Ok(found) if found.is_empty() => Err(Fault::Dns(format!("`{name}` has no address"))),
        Ok(found) => Ok(found),
        Err(error) if fault::is_local(&error) => Err(Fault::Local(error.to_string())),
        Err(error) => Err(Fault::Dns(error.to_string())),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
