//! The tables: their names, the SQL that makes them, the statements that are sent to them, and the
//! time for which marks stay in them.

mod marks;
pub(super) mod migrations;
pub(super) mod retention;
pub(super) mod statements;
pub(super) mod tables;
