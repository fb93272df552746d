//! Ids that are being released.

use crate::tiered::batching::{Batched, Claims, Client};
use crate::tiered::single_flight::{Flight, Turn};
use hapax::seam::Digest;
use std::sync::Arc;

/// An id whose claim was dropped, and is being released: callers in this process that want it wait
/// for that.
pub(super) struct Releasing {
    client: Arc<Client>,
    flight: Flight,
}

impl Releasing {
    pub(super) fn begin(client: &Arc<Client>, id: Digest) -> Self {
        let single_flight = Claims::single_flight(&client.single_flights);
        let flight = match single_flight.map(|single_flight| (single_flight, single_flight.join(id))) {
            Some((single_flight, Turn::Leads(flight))) => {
                single_flight.leave(flight);
                flight
            }
            // Another caller asks already, and is told whether it is in progress.
            _ => Flight::aside(id),
        };
        Releasing { client: Arc::clone(client), flight }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(single_flight) = Claims::single_flight(&self.client.single_flights) {
            single_flight.land_untold(self.flight);
        }
    }
}
