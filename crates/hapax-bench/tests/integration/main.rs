//! Tests of reports, and of the figures that documents quote.

#![cfg(not(modelled))]

mod figures;
mod report;
