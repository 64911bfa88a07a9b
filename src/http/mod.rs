//! The shell of the HTTP face: sockets in, plain requests out, plain responses back.
//!
//! Only `router` and `page` know what is served. One thread accepts, reads a whole request under hard limits,
//! calls the handler inline and writes what it returned, so a handler sees only requests that are
//! complete, addressed to us, and small; and no thread of ours outlives its request.
//!
//! | file | noun |
//! | --- | --- |
//! | `router` | which path answers what, from files alone |
//! | `page` | the status page |
//! | `health` | the agent's own word, signed for whoever asks with a challenge |
//! | `status` | refusals and failures → HTTP statuses, the only place |
//! | `message` | the request and response a handler sees |
//! | `target` | path and query, decoded once (pure) |
//! | `gate` | which Host, Origin, method and body type are let in (pure) |
//! | `refusal` | every answer the shell gives by itself, with its status |
//! | `accept` | the loop: connections, idle exit, the handler's turn |
//! | `connection` | one connection: hyper, the body, the answer on the wire |
//! | `pace` | how long a client may keep us waiting |
//! | `tap` | the bytes under hyper: phases and the raw head |
//! | `stdio` | one connection on stdin and stdout |
//! | `listen` | sockets we bind or inherit |

pub mod accept;
mod connection;
pub mod gate;
mod health;
pub mod listen;
pub mod message;
mod pace;
mod page;
pub mod refusal;
pub mod router;
mod status;
pub mod stdio;
mod tap;
pub mod target;

pub use accept::{Access, Limits, Options, Stop, serve};
pub use gate::Allowed;
pub use message::{Method, Problem, Request, Response};
pub use stdio::serve_one;
