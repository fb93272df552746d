//! What is made of reports, and the figures that documents quote.

#![cfg(not(modelled))]

mod figures;
mod report;
