//! The segments of a long memory, on their way to a new owner.

use crate::drive::{Driver, blocking};
use crate::manifest::Manifest;
use crate::{HandoverError, local};
use hapax::DurableSegments;
use std::path::Path;

/// Downloads the segments that a manifest names into a directory, with their own manifest.
pub(crate) async fn bring(driver: &Driver, directory: &Path, manifest: &Manifest) -> Result<(), HandoverError> {
    let segments = &manifest.content.segments;
    if segments.manifest.is_empty() {
        return Ok(());
    }
    let (path, bytes) = (directory.to_path_buf(), segments.manifest.clone());
    blocking(move || {
        local::create_directory(&path)?;
        local::write(&path.join(DurableSegments::MANIFEST), &bytes)
    })
    .await?;
    driver.download(directory, &segments.files).await
}
