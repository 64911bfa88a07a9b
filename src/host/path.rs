//! Where a path really leads.

use std::path::{Path, PathBuf};

/// The path with every link resolved as far as it exists, `..` undone; the rest appended.
pub fn resolve(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => path.to_owned(),
    }
}
