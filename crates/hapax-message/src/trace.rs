//! The trace that a message belongs to: W3C Trace Context.

use crate::attributes;
use crate::described::Described;
use crate::trace_state;
use hapax::seam::random;
use std::fmt;
use std::str::FromStr;

/// The flag of a trace that its caller records.
const SAMPLED: u8 = 1;
/// The flag of a trace whose id is random.
const RANDOM: u8 = 2;
/// The length of a header of version 00, and the least one of later versions.
const LENGTH: usize = 55;

/// The place of a message in a trace: the headers `traceparent` and `tracestate` of the W3C's
/// recommendation [Trace Context](https://www.w3.org/TR/trace-context/).
///
/// ```
/// use hapax_message::TraceContext;
///
/// let received = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace = TraceContext::parse(received, Some("congo=t61rcWkgMzE"))?;
/// assert!(trace.is_sampled());
///
/// // What one sends on belongs to the same trace, with an id of its own.
/// let sent = trace.child();
/// assert_eq!(sent.traceparent()[..35], received[..35]);
/// assert_ne!(sent, trace);
/// let headers = [("traceparent", sent.traceparent()), ("tracestate", sent.tracestate().to_owned())];
/// assert_eq!(headers[1].1, "congo=t61rcWkgMzE");
/// # Ok::<(), hapax_message::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    parent_id: [u8; 8],
    flags: u8,
    state: String,
}

impl TraceContext {
    /// Reads both headers. Versions that do not exist yet are read as far as version 00 goes, as
    /// the recommendation says. A `tracestate` that breaks its rules is left out, and is no error.
    ///
    /// # Errors
    ///
    /// [`TraceError`] if `traceparent` breaks its rules: neither header must be used then.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, TraceError> {
        let mut trace: TraceContext = traceparent.parse()?;
        trace.state = tracestate.and_then(trace_state::parse).unwrap_or_default();
        Ok(trace)
    }

    /// Returns the context of a message: that of its headers, and otherwise that of CloudEvents'
    /// extension, which is the one in which the event was made. None if there is none, or a
    /// malformed one: a new trace begins there.
    pub fn of<M: Described + ?Sized>(message: &M) -> Option<Self> {
        let header = |name: &str| message.header(name);
        if let Some(parent) = header("traceparent") {
            return Self::parse(parent, header("tracestate")).ok();
        }
        let parent = attributes::decoded(&header, &attributes::TRACEPARENT)?;
        Self::parse(&parent, attributes::decoded(&header, &attributes::TRACESTATE).as_deref()).ok()
    }

    /// Returns true if the sender may have recorded the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the header `traceparent`, in version 00.
    pub fn traceparent(&self) -> String {
        self.to_string()
    }

    /// Returns the header `tracestate`; empty if there is none, and then it is not to be sent.
    pub fn tracestate(&self) -> &str {
        &self.state
    }

    /// Returns the context for what one sends on because of this message: the same trace, with a
    /// random parent id. (A program that has a tracer sends its span's id instead.)
    pub fn child(&self) -> Self {
        // One in 2^64 is no id.
        let id = std::iter::repeat_with(random::any).take(4).find(|&id| id != 0).unwrap_or(1);
        TraceContext { parent_id: id.to_be_bytes(), ..self.clone() }
    }
}

impl FromStr for TraceContext {
    type Err = TraceError;

    /// Reads a `traceparent`.
    fn from_str(header: &str) -> Result<Self, TraceError> {
        let bytes = header.as_bytes();
        let [version] = hex(bytes, 0)?;
        match version {
            0xff => return Err(TraceError::Version),
            // (Of version 00 nothing may follow; of a later one what follows is set off.)
            0 if bytes.len() != LENGTH => return Err(TraceError::Length { got: bytes.len() }),
            _ => {}
        }
        if let Some(at) = [2, 35, 52, LENGTH].into_iter().find(|&at| bytes.get(at).is_some_and(|&byte| byte != b'-')) {
            return Err(TraceError::Character { at });
        }
        let (trace_id, parent_id, [flags]) = (hex(bytes, 3)?, hex(bytes, 36)?, hex(bytes, 53)?);
        for (field, is_zero) in [("trace-id", trace_id == [0; 16]), ("parent-id", parent_id == [0; 8])] {
            if is_zero {
                return Err(TraceError::Zero { field });
            }
        }
        // Flags that are not known must not be sent on.
        Ok(TraceContext { trace_id, parent_id, flags: flags & (SAMPLED | RANDOM), state: String::new() })
    }
}

/// Reads bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(header: &[u8], from: usize) -> Result<[u8; N], TraceError> {
    let mut read = [0; N];
    for (i, byte) in read.iter_mut().enumerate() {
        for at in [from + 2 * i, from + 2 * i + 1] {
            let digit = match header.get(at) {
                Some(digit @ b'0'..=b'9') => digit - b'0',
                Some(digit @ b'a'..=b'f') => digit - b'a' + 10,
                Some(_) => return Err(TraceError::Character { at }),
                None => return Err(TraceError::Length { got: header.len() }),
            };
            *byte = *byte << 4 | digit;
        }
    }
    Ok(read)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.parent_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

/// The rule that a trace context breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// `traceparent` is too short, or is of version 00 and too long.
    Length {
        /// The length that it has.
        got: usize,
    },
    /// A character is neither a digit nor in `a` to `f`, or is no hyphen where one belongs. Upper
    /// case is not allowed.
    Character {
        /// Its place, from zero.
        at: usize,
    },
    /// Version `ff` is forbidden.
    Version,
    /// An id consists of zeros alone.
    Zero {
        /// `trace-id` or `parent-id`.
        field: &'static str,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Length { got } => write!(f, "traceparent has {got} characters, expected {LENGTH}"),
            TraceError::Character { at } => {
                write!(
                    f,
                    "traceparent: character {at} is not the lower-case hexadecimal digit or hyphen that belongs there"
                )
            }
            TraceError::Version => f.write_str("traceparent is of version ff, which is forbidden"),
            TraceError::Zero { field } => write!(f, "traceparent: {field} is zero"),
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn refused(header: &str) -> TraceError {
        header.parse::<TraceContext>().expect_err(header)
    }

    #[test]
    fn a_valid_one_is_printed_as_it_was_read() {
        let trace: TraceContext = VALID.parse().unwrap();
        assert_eq!((trace.to_string(), trace.is_sampled()), (VALID.to_owned(), true));
        assert!(!VALID.replace("-01", "-00").parse::<TraceContext>().unwrap().is_sampled());
    }

    #[test]
    fn what_the_recommendation_forbids_is_refused() {
        assert_eq!(refused(&VALID.replacen("00-", "ff-", 1)), TraceError::Version);
        assert_eq!(refused(&VALID.replace("af", "AF")), TraceError::Character { at: 4 });
        assert_eq!(refused(&VALID.replace('-', "_")), TraceError::Character { at: 2 });
        assert_eq!(refused(&format!("{VALID}-00")), TraceError::Length { got: 58 });
        assert_eq!(refused(&VALID[..54]), TraceError::Length { got: 54 });
        assert_eq!(refused(""), TraceError::Length { got: 0 });
        assert_eq!(refused(&format!(" {}", &VALID[1..])), TraceError::Character { at: 0 });
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        assert_eq!(refused(&zero_trace), TraceError::Zero { field: "trace-id" });
        assert_eq!(
            refused(&VALID.replace("b7ad6b7169203331", &"0".repeat(16))),
            TraceError::Zero { field: "parent-id" }
        );
    }

    #[test]
    fn versions_to_come_are_read_as_far_as_they_are_known() {
        let later = VALID.replacen("00-", "cc-", 1).replace("-01", "-ff");
        for header in [later.clone(), format!("{later}-what-the-future-will-be-like")] {
            let trace: TraceContext = header.parse().expect(&header);
            assert_eq!(trace.to_string(), VALID.replace("-01", "-03"), "unknown flags are not sent on");
        }
        assert_eq!(refused(&format!("{later}.what")), TraceError::Character { at: LENGTH });
        assert_eq!(refused(&later[..54]), TraceError::Length { got: 54 });
    }

    #[test]
    fn headers_of_any_length_are_read_or_refused_and_little_of_them_is_kept() {
        let large = "x".repeat(1 << 20);
        assert_eq!(refused(&format!("{VALID}{large}")), TraceError::Length { got: VALID.len() + large.len() });
        assert_eq!(refused(&large), TraceError::Character { at: 0 });
        assert_eq!(refused(&format!("00-{}", "0".repeat(1 << 20))), TraceError::Length { got: (1 << 20) + 3 });
        let later = VALID.replacen("00-", "cc-", 1);
        let trace: TraceContext = format!("{later}-{large}").parse().unwrap();
        assert_eq!(trace.traceparent(), VALID);
        for state in [large.clone(), format!("a={large}"), format!("{large}=1"), "a=1,".repeat(1 << 18)] {
            assert_eq!(TraceContext::parse(VALID, Some(&state)).unwrap().tracestate(), "");
        }
        let trace = TraceContext::parse(VALID, Some(&format!("{},a=1", ",\t ".repeat(1 << 18)))).unwrap();
        assert_eq!(trace.tracestate(), "a=1");
        let most: Vec<String> = (0..32).map(|n| format!("{n:0>256}={}", "v".repeat(256))).collect();
        let trace = TraceContext::parse(VALID, Some(&most.join(","))).unwrap();
        assert_eq!(trace.tracestate().len(), 32 * 514 - 1, "that is the most");
        // Percent-encoded, as HTTP has it, or broken.
        for (encoded, is_read) in [(VALID.replace('0', "%30"), true), ("%30".repeat(1 << 18), false)] {
            let headers: Headers = Headers(vec![("ce-traceparent", encoded.leak())]);
            assert_eq!(TraceContext::of(&headers).is_some(), is_read);
        }
    }

    #[test]
    fn a_broken_tracestate_does_not_break_the_trace() {
        let trace = TraceContext::parse(VALID, Some("a=1,a=2")).unwrap();
        assert_eq!((trace.to_string(), trace.tracestate()), (VALID.to_owned(), ""));
    }

    struct Headers(Vec<(&'static str, &'static str)>);

    impl Described for Headers {
        fn header(&self, name: &str) -> Option<&str> {
            self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
        }

        fn payload(&self) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn the_transport_goes_before_the_event() {
        const EVENT: &str = "00-00000000000000000000000000000001-0000000000000002-00";
        let of = |headers: &[(&'static str, &'static str)]| {
            TraceContext::of(&Headers(headers.to_vec())).map(|trace| (trace.to_string(), trace.tracestate().to_owned()))
        };
        let event = [("ce_traceparent", EVENT), ("ce_tracestate", "a=1")];
        assert_eq!(of(&event), Some((EVENT.to_owned(), "a=1".to_owned())));
        let both = [event[0], event[1], ("traceparent", VALID)];
        assert_eq!(of(&both), Some((VALID.to_owned(), String::new())));
        let broken = [event[0], ("traceparent", "00-x"), ("tracestate", "a=1")];
        assert_eq!((of(&broken), of(&[])), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_a_trace_or_an_error(header in "\\PC{0,70}", state in "\\PC{0,40}") {
            if let Ok(trace) = TraceContext::parse(&header, Some(&state)) {
                prop_assert_eq!(TraceContext::parse(&trace.traceparent(), Some(trace.tracestate())), Ok(trace));
            }
        }

        #[test]
        fn any_one_is_read_as_it_was_printed(trace_id in 1_u128.., parent in 1_u64.., sampled: bool, at in 0_usize..55) {
            let printed = format!("00-{trace_id:032x}-{parent:016x}-0{}", u8::from(sampled));
            let trace: TraceContext = printed.parse().unwrap();
            prop_assert_eq!((trace.traceparent(), trace.is_sampled()), (printed.clone(), sampled));
            // Broken anywhere, it is refused: nothing there is left unread.
            let mut broken = printed.into_bytes();
            broken[at] = b'G';
            prop_assert!(String::from_utf8(broken).unwrap().parse::<TraceContext>().is_err());
        }
    }
}
