//! Plans, and engines that are built as planned.

mod predictions;
