//! The field names of IANA's "Hypertext Transfer Protocol (HTTP) Field Name Registry", each with
//! its fate in a stored response. A change of policy changes this table.
//!
//! 281 names: those of a copy of 2023 (permanent, provisional, deprecated and obsoleted), and those
//! registered since, and before in the provisional repository, as far as known. Two of other
//! origin: `Proxy-Connection` and our own `Idempotency-Replayed`.

use super::Kind;

/// The fate of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored in headers and trailers.
    Kept,
    /// Stored in headers only: it may not be in a trailer section.
    InHeaders,
    /// Stored in neither.
    NotKept(Kind),
}

use Fate::{InHeaders, Kept, NotKept};

pub(super) const COUNT: usize = 283;

#[rustfmt::skip] // one name after another
pub(super) const FATES: [(Fate, &str); 11] = [
    (
        Kept,
        "A-IM AMP-Cache-Transform Apply-To-Redirect-Ref C-Ext C-Man C-Opt C-PEP C-PEP-Info \
         Cal-Managed-ID CalDAV-Timezones Cert-Not-After Cert-Not-Before CMCD-Object CMCD-Request \
         CMCD-Session CMCD-Status CMSD-Dynamic CMSD-Static Compliance Configuration-Context \
         Content-Digest Cost DASL DAV Default-Style Deprecation Depth Derived-From Detached-JWS \
         Dictionary-ID Differential-ID Digest EDIINT-Features ETag Ext Incremental Isolation \
         Label Last-Event-ID Lock-Token Man Memento-Datetime Message-ID Negotiate Non-Compliance \
         OData-EntityId OData-Isolation OData-MaxVersion OData-Version Opt Optional Ordering-Type \
         OSCORE OSLC-Core-Version Overwrite P3P PEP Pep-Info PICS-Label Ping-From Ping-To \
         Position Protocol Protocol-Info Protocol-Query Protocol-Request Public Redirect-Ref \
         Referer Repeatability-Client-ID Repeatability-First-Sent Repeatability-Request-ID \
         Repeatability-Result Repr-Digest Resolution-Hint Resolver-Location Safe Schedule-Reply \
         Schedule-Tag Security-Scheme Server Signature Signature-Input SLUG SoapAction SubOK \
         Sunset Timeout Title Topic TTL UA-Color UA-Media UA-Pixels UA-Resolution UA-Windowpixels \
         Unencoded-Digest Urgency URI Version Want-Content-Digest Want-Digest Want-Repr-Digest \
         Want-Unencoded-Digest X-Device-Accept X-Device-Accept-Charset X-Device-Accept-Encoding \
         X-Device-Accept-Language X-Device-User-Agent",
    ),
    (
        InHeaders,
        "Accept Accept-Additions Accept-Charset Accept-Datetime Accept-Encoding Accept-Features \
         Accept-Language Accept-Patch Accept-Post Accept-Query Accept-Ranges Accept-Signature \
         Allow Alternates Cache-Control Cache-Groups CDN-Cache-Control Content-Base \
         Content-Disposition Content-Encoding Content-ID Content-Language Content-Location \
         Content-MD5 Content-Range Content-Script-Type Content-Security-Policy \
         Content-Security-Policy-Report-Only Content-Style-Type Content-Transfer-Encoding \
         Content-Type Content-Version Cross-Origin-Embedder-Policy \
         Cross-Origin-Embedder-Policy-Report-Only Cross-Origin-Opener-Policy \
         Cross-Origin-Opener-Policy-Report-Only Cross-Origin-Resource-Policy Delta-Base Expires \
         From IM Integrity-Policy Integrity-Policy-Report-Only Last-Modified Link Link-Template \
         Location MIME-Version No-Vary-Search Permissions-Policy Pragma Prefer Preference-Applied \
         Priority Referrer-Policy Retry-After Status-URI Surrogate-Control TCN User-Agent \
         Variant-Vary Vary X-Content-Type-Options X-Frame-Options",
    ),
    (
        NotKept(Kind::Connection),
        "ALPN Capsule-Protocol Close Connection Content-Length Early-Data HTTP2-Settings \
         Keep-Alive Proxy-Connection Sec-WebSocket-Accept Sec-WebSocket-Extensions \
         Sec-WebSocket-Key Sec-WebSocket-Protocol Sec-WebSocket-Version TE Trailer \
         Transfer-Encoding Upgrade",
    ),
    (
        NotKept(Kind::Authentication),
        "Authentication-Control Authentication-Info Authorization Client-Cert Client-Cert-Chain \
         Concealed-Auth-Export CTA-Common-Access-Token DPoP DPoP-Nonce Hobareg \
         Include-Referred-Token-Binding-ID Optional-WWW-Authenticate Proxy-Authenticate \
         Proxy-Authentication-Info Proxy-Authorization Replay-Nonce Sec-Token-Binding \
         WWW-Authenticate",
    ),
    (
        NotKept(Kind::Replayed),
        "Idempotency-Replayed",
    ),
    (
        NotKept(Kind::Cookie),
        "Cookie Cookie2 GetProfile ProfileObject Set-Cookie Set-Cookie2 SetProfile",
    ),
    (
        NotKept(Kind::Origin),
        "Access-Control Access-Control-Allow-Credentials Access-Control-Allow-Headers \
         Access-Control-Allow-Methods Access-Control-Allow-Origin Access-Control-Expose-Headers \
         Access-Control-Max-Age Access-Control-Request-Headers Access-Control-Request-Method \
         Method-Check Method-Check-Expires Origin Referer-Root Timing-Allow-Origin",
    ),
    (
        NotKept(Kind::Moment),
        "Age Cache-Status Date Proxy-Status Server-Timing Traceparent Tracestate Via Warning",
    ),
    (
        NotKept(Kind::Site),
        "Accept-CH Activate-Storage-Access Alt-Svc Alt-Used Cache-Group-Invalidation \
         Clear-Site-Data Expect-CT NEL Observe-Browsing-Topics Origin-Agent-Cluster \
         Public-Key-Pins Public-Key-Pins-Report-Only Refresh Reporting-Endpoints Set-Txn \
         Strict-Transport-Security Use-As-Dictionary",
    ),
    (
        NotKept(Kind::Proxy),
        "CDN-Loop Forwarded Max-Forwards Meter Proxy-Features Proxy-Instruction \
         Surrogate-Capability",
    ),
    (
        NotKept(Kind::Request),
        "Available-Dictionary Destination Expect Host If If-Match If-Modified-Since If-None-Match \
         If-Range If-Schedule-Tag-Match If-Unmodified-Since Range Sec-Fetch-Dest Sec-Fetch-Mode \
         Sec-Fetch-Site Sec-Fetch-Storage-Access Sec-Fetch-User Sec-GPC Sec-Purpose",
    ),
];
