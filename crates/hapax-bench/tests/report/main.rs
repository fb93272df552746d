//! Everything that is made of a report: pages, charts, comparisons.

#![cfg(not(modelled))]

mod chromium;
mod comparing;
mod fixture;
mod odd;
mod pages;
