//! Bodies of fuzz targets, which replays of their corpora and random tests share; and the model
//! that an engine is compared with.

pub mod decode;
pub mod files;
pub mod model;
pub mod threads;
