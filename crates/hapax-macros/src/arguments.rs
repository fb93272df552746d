//! The arguments of the attribute.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, LitStr, Token};

const EXPECTED: &str = "expected `dedup = …`, `key = …`, `fingerprint = …`, `options = …` or `name = \"…\"`";

/// The arguments, complete.
pub(super) struct Arguments {
    pub(super) dedup: Expr,
    pub(super) key: Expr,
    pub(super) fingerprint: Option<Expr>,
    pub(super) options: Option<Expr>,
    pub(super) name: Option<LitStr>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut dedup, mut key, mut fingerprint, mut options, mut name) = (None, None, None, None, None);
        while !input.is_empty() {
            let argument: Ident = input.parse().map_err(|error| Error::new(error.span(), EXPECTED))?;
            let text = argument.to_string();
            if !["dedup", "key", "fingerprint", "options", "name"].contains(&text.as_str()) {
                return Err(Error::new(argument.span(), format!("there is no argument `{text}`: {EXPECTED}")));
            }
            input
                .parse::<Token![=]>()
                .map_err(|error| Error::new(error.span(), format!("expected `=` after `{text}`")))?;
            match text.as_str() {
                "dedup" => set(&mut dedup, &argument, input.parse()?)?,
                "key" => set(&mut key, &argument, input.parse()?)?,
                "fingerprint" => set(&mut fingerprint, &argument, input.parse()?)?,
                "options" => set(&mut options, &argument, input.parse()?)?,
                _ => {
                    let not_text = |error: Error| Error::new(error.span(), "expected a text: `name = \"charge\"`");
                    set(&mut name, &argument, input.parse().map_err(not_text)?)?;
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(|error| {
                    Error::new(error.span(), format!("expected `,` between arguments, after that of `{text}`"))
                })?;
            }
        }
        let missing = |argument: &str, what: &str| {
            let text = format!("`{argument}` is missing: expected `#[once(dedup = …, key = …)]`, with {what}");
            Error::new(Span::call_site(), text)
        };
        Ok(Arguments {
            dedup: dedup.ok_or_else(|| missing("dedup", "the engine that knows which calls were made"))?,
            key: key.ok_or_else(|| missing("key", "the key of the call, in terms of the function's arguments"))?,
            fingerprint,
            options,
            name,
        })
    }
}

fn set<T>(argument: &mut Option<T>, named: &Ident, value: T) -> syn::Result<()> {
    match argument.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(named.span(), format!("`{named}` is given twice"))),
    }
}
