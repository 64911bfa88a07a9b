//! PURE: shapes at the border. Files, maps and bodies that others read or write.

pub mod call;
pub mod freshness;
pub mod health;
pub mod psv;
pub mod routes;
pub mod witness;
