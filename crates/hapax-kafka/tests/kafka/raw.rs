//! Messages that no client of this language sends.

use crate::cluster::PATIENCE;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a message to partition 0 with these headers, whose names need not be text: no client here
/// sends such ones, and those of other languages do. All lengths must be below 64.
pub fn send_raw(brokers: &str, topic: &str, headers: &[(&[u8], &[u8])]) {
    let varint = |number: usize| u8::try_from(number * 2).expect("one byte");
    let mut record = vec![0, 0, 0, 1]; // attributes, deltas of time and offset, no key
    record.push(varint(b"a payment".len()));
    record.extend(b"a payment");
    record.push(varint(headers.len()));
    for part in headers.iter().flat_map(|(name, value)| [name, value]) {
        record.push(varint(part.len()));
        record.extend(*part);
    }
    record.insert(0, varint(record.len()));
    let mut batch = [&(-1_i32).to_be_bytes()[..], &[2], &[0; 4], &[0; 2], &[0; 4], &[0; 16]].concat();
    batch.extend([0xff; 14]); // no producer id, epoch or sequence
    batch.extend(1_i32.to_be_bytes());
    batch.extend(record);
    let batch = [&0_i64.to_be_bytes()[..], &(batch.len() as i32).to_be_bytes(), &batch].concat();
    let text = |text: &str| [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat();
    // Produce, version 7: no transaction, all replicas, in 5 s; one topic, its partition 0.
    let mut request = [&0_i16.to_be_bytes()[..], &7_i16.to_be_bytes(), &1_i32.to_be_bytes(), &text("raw")].concat();
    request.extend([&(-1_i16).to_be_bytes()[..], &(-1_i16).to_be_bytes(), &5_000_i32.to_be_bytes()].concat());
    request.extend([&1_i32.to_be_bytes()[..], &text(topic), &1_i32.to_be_bytes(), &0_i32.to_be_bytes()].concat());
    request.extend([&(batch.len() as i32).to_be_bytes()[..], &batch].concat());
    let mut stream = TcpStream::connect(brokers).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(&(request.len() as i32).to_be_bytes()).expect("sent");
    stream.write_all(&request).expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    let error = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[error..error + 2], [0; 2], "stored: {answer:?}");
}
