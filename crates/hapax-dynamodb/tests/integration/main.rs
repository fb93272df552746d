//! `DynamoDbStore` on a server of the test's own (moto's), with faults on the way to it.

mod client;
mod faults;
mod network;
mod records;
mod restored;
mod suite;
mod table;
mod wire;
