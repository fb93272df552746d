//! The function that the attribute makes of another one.

use super::arguments::Arguments;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ItemFn, ReturnType};

/// Returns the function with its body under a claim.
pub(super) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let no_function = |error: Error| Error::new(error.span(), "`once` is for functions: expected an `async fn`");
    let mut function: ItemFn = syn::parse2(item).map_err(no_function)?;
    let arguments: Arguments = syn::parse2(arguments)?;
    if function.sig.asyncness.is_none() {
        let text = "`once` is for asynchronous functions: expected `async fn`, since it asks a store";
        return Err(Error::new(function.sig.fn_token.span(), text));
    }
    let ReturnType::Type(_, returned) = &function.sig.output else {
        let text = "expected a function that returns a `Result<T, E>`, where E is `From<IdempotencyError>`";
        return Err(Error::new(function.sig.ident.span(), text));
    };
    let Arguments { dedup, key, fingerprint, options, name } = arguments;
    let (name, is_free) = match name {
        Some(name) => (quote!(#name), TokenStream::new()),
        None => {
            let is_free = is_one_function(&function)?;
            let name = function.sig.ident.to_string();
            (quote!(::core::concat!(::core::module_path!(), "::", #name)), is_free)
        }
    };
    // Names of its own: the function's arguments may have the same ones.
    let [place, engine, id, chosen, work] =
        ["place", "dedup", "key", "options", "function"].map(|name| Ident::new(name, Span::mixed_site()));
    let options = match options {
        Some(options) => quote_spanned!(at(&options)=> let #chosen: ::hapax_store::RunOptions = #options;),
        None => quote!(let #chosen = ::hapax_store::RunOptions::new();),
    };
    let fingerprint = fingerprint.map(|fingerprint| {
        let add = quote_spanned!(at(&fingerprint)=> ::hapax_store::RunOptions::fingerprint(#chosen, &(#fingerprint)));
        quote!(let #chosen = #add;)
    });
    let key = quote_spanned!(at(&key)=> ::hapax_store::of_macros::key(#name, &(#key)));
    let body = &function.block;
    let block = quote! {{
        #is_free
        let #place = {
            static PLACE: ::hapax_store::of_macros::Place =
                ::hapax_store::of_macros::Place::new(#name, ::core::file!(), ::core::line!());
            &PLACE
        };
        let #engine = (#dedup).clone();
        let #id = #key;
        #options
        #fingerprint
        let #work = move || async move {
            // So that the type is known wherever the body returns or uses `?`.
            #[allow(unreachable_code, clippy::diverging_sub_expression)]
            if let ::core::option::Option::Some(#work) = ::core::option::Option::None::<#returned> {
                return #work;
            }
            #body
        };
        let #work = match #place.check() {
            ::core::result::Result::Ok(()) => #engine.run_with(#id, #chosen, #work).await,
            ::core::result::Result::Err(twice) =>
                ::core::result::Result::Err(::hapax_store::RunError::NotRun(twice)),
        };
        #work.map_err(::hapax_store::RunError::into_error)
    }};
    function.block = Box::new(syn::parse2(block)?);
    Ok(function.into_token_stream())
}

/// Refuses a function of which module and name do not say which one it is: keys do not know types,
/// so calls for one type would be answered with the results of another. Returns code that compiles
/// only if the function is a free one: it can be named as it is nowhere else.
fn is_one_function(function: &ItemFn) -> syn::Result<TokenStream> {
    let signature = &function.sig;
    let refuse = |at: Span, what: &str| {
        let text = format!("{what} needs a name of its own, which keys have: `#[once(…, name = \"…\")]`");
        Err(Error::new(at, text))
    };
    let is_type = |param: &&syn::GenericParam| !matches!(param, syn::GenericParam::Lifetime(_));
    if let Some(param) = signature.generics.params.iter().find(is_type) {
        return refuse(param.span(), "a generic function");
    }
    if let Some(at) = signature.inputs.iter().find_map(|input| named(input.to_token_stream(), "impl")) {
        return refuse(at, "a generic function");
    }
    if let Some(receiver) = signature.receiver() {
        return refuse(receiver.span(), "a method");
    }
    if let Some(at) = named(function.to_token_stream(), "Self") {
        return refuse(at, "a function of a type");
    }
    let name = &signature.ident;
    Ok(quote! {
        #[allow(dead_code)]
        fn a_function_of_a_type_needs_a_name_of_its_own() {
            let _ = #name;
        }
    })
}

/// Returns the first place at which a word stands.
fn named(tokens: TokenStream, word: &str) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => (ident == word).then(|| ident.span()),
        TokenTree::Group(group) => named(group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    })
}

/// Returns the place of an expression, for errors. Tokens there are the attribute's own, so that
/// lints do not take them for the user's.
fn at(expression: &Expr) -> Span {
    Span::mixed_site().located_at(expression.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: &str = "pub async fn charge<'a>(order: &'a Order) -> Result<Receipt, Error> { order.charge()? }";

    fn expanded(arguments: &str, item: &str) -> syn::Result<TokenStream> {
        expand(arguments.parse().unwrap(), item.parse().unwrap())
    }

    #[test]
    fn the_signature_and_attributes_stay() {
        let attributed = format!("/// Charges.\n#[tracing::instrument] {FUNCTION}");
        let made: ItemFn = syn::parse2(expanded("dedup = ENGINE, key = order.id,", &attributed).unwrap()).unwrap();
        let given: ItemFn = syn::parse_str(&attributed).unwrap();
        assert_eq!(made.sig.to_token_stream().to_string(), given.sig.to_token_stream().to_string());
        assert_eq!((made.attrs.len(), made.vis.to_token_stream().to_string().as_str()), (2, "pub"));
        let body = made.block.to_token_stream().to_string();
        assert!(body.contains("\"charge\"") && body.contains("order . charge () ?"), "{body}");
        let body = expanded("dedup = E, key = k, name = \"pay\"", FUNCTION).unwrap().to_string();
        assert!(body.contains("\"pay\"") && !body.contains("\"charge\""), "{body}");
    }

    #[test]
    fn with_a_name_of_its_own_any_function_goes() {
        for item in
            ["async fn charge<T>(of: &impl Order) -> Result<T, E> {}", "async fn charge(&self) -> Result<Self, E> {}"]
        {
            let made = expanded("dedup = d, key = k, name = \"pay\"", item).unwrap().to_string();
            assert!(!made.contains("needs_a_name"), "{made}");
        }
        assert!(expanded("dedup = d, key = k", FUNCTION).unwrap().to_string().contains("let _ = charge"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("dedup = d, key = k", "fn charge() -> Result<(), E> {}", "expected `async fn`"),
            ("dedup = d, key = k", "async fn charge() {}", "returns a `Result<T, E>`"),
            ("dedup = d, key = k", "struct Charge;", "`once` is for functions"),
            ("dedup = d", FUNCTION, "`key` is missing"),
            ("key = k", FUNCTION, "`dedup` is missing"),
            ("", FUNCTION, "`dedup` is missing"),
            ("dedup = d, key = a, key = b", FUNCTION, "`key` is given twice"),
            ("dedup = d, id = a", FUNCTION, "no argument `id`: expected `dedup = …`, `key = …`"),
            ("dedup = d, \"key\"", FUNCTION, "expected `dedup = …`"),
            ("dedup = d, key(a)", FUNCTION, "expected `=` after `key`"),
            ("dedup = d key = a", FUNCTION, "expected `,` between arguments"),
            ("dedup = d, key = a, name = charge", FUNCTION, "expected a text"),
            ("dedup = d, key = k", "async fn charge<T>() -> Result<T, E> {}", "a generic function needs a name"),
            ("dedup = d, key = k", "async fn charge<const N: u8>() -> Result<(), E> {}", "a generic function needs"),
            ("dedup = d, key = k", "async fn charge(of: &impl Order) -> Result<(), E> {}", "a generic function needs"),
            ("dedup = d, key = k", "async fn charge(&self) -> Result<(), E> {}", "a method needs a name"),
            ("dedup = d, key = k", "async fn charge() -> Result<Self, E> {}", "a function of a type needs a name"),
            ("dedup = d, key = k", "async fn charge() -> Result<(), E> { Self::pay() }", "a function of a type needs"),
        ];
        for (arguments, item, says) in cases {
            let error = expanded(arguments, item).unwrap_err().to_string();
            assert!(error.contains(says), "#[once({arguments})] {item}: {error}");
        }
    }
}
