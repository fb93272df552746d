//! The source against moto's server, which has the queues of SQS in memory, and against answers of
//! the tests' own: parts of a batch that fail, throttling, silence.

mod answers;
mod fifo;
mod published;
mod queue;
mod redriven;
mod server;
