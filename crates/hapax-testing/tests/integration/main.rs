//! What others have built is judged: consumers in simulations, and maps.

mod consumer;
mod maps;
