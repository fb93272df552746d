//! Consumers of a broker, and streams without their duplicates.
