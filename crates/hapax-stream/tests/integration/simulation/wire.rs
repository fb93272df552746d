//! The encoding of requests and answers on a simulated wire: numbers as eight bytes, variable
//! lengths in front.

use hapax_store::*;
use std::time::Duration;

/// A value that can be sent.
pub trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);

    /// Takes it from the front. `None`: these bytes are not a valid value.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// Decodes a value that takes all of the bytes.
pub fn decode<T: Wire>(mut from: &[u8]) -> Option<T> {
    T::take(&mut from).filter(|_| from.is_empty())
}

pub fn encode(of: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    of.put(&mut out);
    out
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (number, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(u64::from_le_bytes(*number))
    }
}

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        Some(*byte)
    }
}

/// Encodes a type as another one.
macro_rules! as_another {
    ($($of:ty: $to:expr, $back:expr;)*) => {$(
        impl Wire for $of {
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn(&Self) -> _ = $to;
                Wire::put(&to(self), out);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let back: fn(_) -> Option<Self> = $back;
                back(Wire::take(from)?)
            }
        }
    )*};
}

as_another! {
    bool: |is| u64::from(*is), |number: u64| [false, true].get(usize::try_from(number).ok()?).copied();
    usize: |size| *size as u64, |number: u64| usize::try_from(number).ok();
    (): |()| 0u64, |_: u64| Some(());
    Duration: |time| time.as_nanos() as u64, |nanos: u64| Some(Duration::from_nanos(nanos));
    RecordKey: |key| key.to_stored(), |stored: Vec<u8>| RecordKey::from_stored(&stored).ok();
    Fingerprint: |it| it.0.to_vec(), |bytes: Vec<u8>| bytes.try_into().ok().map(Fingerprint);
    String: |text| text.as_bytes().to_vec(), |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    Held: |held| *held == Held::Done, |done: bool| Some(if done { Held::Done } else { Held::Lost });
    StoreError: |error| (KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0), error.to_string()),
        |(kind, what): (usize, String)| Some(StoreError::new(*KINDS.get(kind)?, "simulated", what));
}

const KINDS: [ErrorKind; 5] =
    [ErrorKind::Unavailable, ErrorKind::Timeout, ErrorKind::Conflict, ErrorKind::Corrupt, ErrorKind::Misconfigured];

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|each| each.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::take(from)?;
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|it| it.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(it) => it.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(from)? { Ok(T::take(from)?) } else { Err(E::take(from)?) })
    }
}

/// Encodes a struct field after field.
macro_rules! fields {
    ($($of:ident { $($field:ident),* })*) => {$(
        impl Wire for $of {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($of { $($field: Wire::take(from)?),* })
            }
        }
    )*};
}

fields! {
    Mark { key, attempt, retention }
    Unmark { key, attempt }
    ClaimRequest { key, attempt, lease, fingerprint }
    Hold { key, token }
    Completion { hold, retention, result }
    ClaimFailure { hold, retry_after }
    Renewal { hold, lease }
    Record { key, retention, fingerprint, result }
}

/// Field after field, of an answer, which has a constructor.
macro_rules! answers {
    ($($of:ident { $($field:ident),* })*) => {$(
        impl Wire for $of {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $field = Wire::take(from)?;)*
                Some($of::new($($field),*))
            }
        }
    )*};
}

answers! {
    Completed { expires_in, fingerprint, result }
    Expired { records, more }
    Found { key, expires_in }
    Page { found, next }
}

as_another! {
    Cursor: |cursor| cursor.0.clone(), |bytes: Vec<u8>| Some(Cursor(bytes));
}

/// Encodes an enum: the number of the variant, then its fields.
macro_rules! variants {
    ($($of:ident { $($number:literal: $variant:ident $(($inner:ident))? $({ $($field:ident),* })?),* })*) => {$(
        impl Wire for $of {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($of::$variant $(($inner))? $({ $($field),* })? => {
                        u64::put(&$number, out);
                        $($inner.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                }
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                match u64::take(from)? {
                    $($number => {
                        $(let $inner = Wire::take(from)?;)?
                        $($(let $field = Wire::take(from)?;)*)?
                        Some($of::$variant $(($inner))? $({ $($field),* })?)
                    })*
                    _ => None,
                }
            }
        }
    )*};
}

variants! {
    Marked { 0: Fresh, 1: Duplicate { expires_in, attempt }, 2: InProgress { lease_left } }
    Unmarked { 0: Done, 1: NotThere, 2: Unknown }
    Claimed { 0: Claimed { token }, 1: InProgress { lease_left }, 2: Duplicate(done), 3: Mismatch }
    Known { 0: Unknown, 1: InProgress { lease_left, fingerprint }, 2: Completed(done) }
}

#[test]
fn what_is_sent_arrives() {
    fn same<T: Wire + std::fmt::Debug>(sent: T) {
        let bytes = encode(&sent);
        let arrived: T = decode(&bytes).unwrap_or_else(|| panic!("{sent:?} does not arrive"));
        assert_eq!(format!("{arrived:?}"), format!("{sent:?}"));
        assert!(decode::<T>(&bytes[..bytes.len() - 1]).is_none(), "{sent:?} arrives without its last byte");
    }
    let key = RecordKey::new(&Scope::new("s").unwrap(), "id");
    let hold = Hold { key: key.clone(), token: 7 };
    let time = Duration::from_millis(1_234);
    let fingerprint = Some(Fingerprint::of("m"));
    same(vec![ClaimRequest { key: key.clone(), attempt: 1 << 62, lease: time, fingerprint }]);
    same(Completion { hold: hold.clone(), retention: time, result: Some(b"r".into()) });
    same(Renewal { hold, lease: time });
    let done = Completed::new(time, fingerprint, None);
    same(vec![
        Known::Unknown,
        Known::InProgress { lease_left: time, fingerprint: None },
        Known::Completed(done.clone()),
    ]);
    same(vec![Claimed::Claimed { token: 3 }, Claimed::Mismatch, Claimed::Duplicate(done)]);
    let failed: Answers<Marked> =
        Ok(vec![Ok(Marked::Fresh), Err(StoreError::new(ErrorKind::Conflict, "simulated", "x"))]);
    let arrived: Answers<Marked> = decode(&encode(&failed)).unwrap();
    assert_eq!(arrived.unwrap()[1].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
    same(Page::new(vec![Found::new(key, time)], Some(Cursor(vec![1]))));
}
