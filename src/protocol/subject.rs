//! What is judged: a node, or one service as one node offers it.

use super::member::NodeId;
use super::service::ServiceName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One subject of suspicion. Printed `node` or `node|service`; neither name can hold the bar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Subject {
    /// Which node.
    pub node: NodeId,
    /// Which of its services; `None` is the node itself.
    pub service: Option<ServiceName>,
}

impl Subject {
    /// The node itself.
    pub fn node(id: &NodeId) -> Subject {
        Subject { node: id.clone(), service: None }
    }

    /// One of its services.
    pub fn service(id: &NodeId, name: &ServiceName) -> Subject {
        Subject { node: id.clone(), service: Some(name.clone()) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => write!(f, "{}|{service}", self.node),
            None => self.node.fmt(f),
        }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.to_string()
    }
}

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(text: String) -> Result<Subject, String> {
        let (node, service) = match text.split_once('|') {
            Some((node, service)) => (node, Some(ServiceName::parse(service)?)),
            None => (text.as_str(), None),
        };
        let node = NodeId::parse(node).map_err(|error| error.to_string())?;
        Ok(Subject { node, service })
    }
}
