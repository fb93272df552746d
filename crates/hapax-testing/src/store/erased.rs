//! Fixtures of any backend as one type.

use super::fixture::Fixture;
use hapax_store::erased::{Answering, Erased};
use std::time::Duration;

/// A [`Fixture`] of any type.
pub(super) trait AnyFixture: Sync {
    fn open(&self) -> Answering<'_, Box<dyn Erased>>;
    fn advance(&self, by: Duration) -> Answering<'_, ()>;
    fn expires_by_record(&self) -> bool;
}

impl<F: Fixture> AnyFixture for F {
    fn open(&self) -> Answering<'_, Box<dyn Erased>> {
        Box::pin(async { Box::new(Fixture::open(self).await) as Box<dyn Erased> })
    }

    fn advance(&self, by: Duration) -> Answering<'_, ()> {
        Box::pin(Fixture::advance(self, by))
    }

    fn expires_by_record(&self) -> bool {
        Fixture::expires_by_record(self)
    }
}
