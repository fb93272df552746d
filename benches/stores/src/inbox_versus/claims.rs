//! Claims.

use super::place::Place;

pub async fn run(_place: &Place) {}
