//! A directory that is put back.

use crate::store::open;
use std::time::Duration;
use testkit::directory::Directory;
use testkit::stores::restored::{Place, handle_files};
use testkit::stores::{clock_at, runtime};

#[test]
fn files_that_were_put_back() {
    let (directory, clock) = (Directory::new("restored"), clock_at(0));
    let files = directory.path().join("files");
    let open = async || open(&files, &clock).await;
    let handle = async |backup| handle_files(&directory, backup).await;
    runtime().block_on(async {
        let place = Place { open, handle, clock: clock.clone() };
        place.is_put_back().await;
        place.draws_again_only_if_the_clock_is_behind(Duration::from_secs(1)).await;
    });
}
