//! Tests that judge maps that others have built.

mod maps;
