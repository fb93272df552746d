#![cfg_attr(not(doctest), doc = include_str!("../README.md"))] // hapax-store tests it, and the other one

mod arguments;
mod expand;

use proc_macro::TokenStream;

/// Makes an asynchronous function run once for a key, and return its result to later callers as
/// well.
///
/// | argument | what it is |
/// |---|---|
/// | `dedup = …` | a `TieredDedup`, or what dereferences to one; the handle is cloned |
/// | `key = …` | the key of the call, as bytes or text: `order.id`, `request_id.to_string()` |
/// | `fingerprint = …` | what else makes it this call, as bytes or text; optional |
/// | `options = …` | a `RunOptions`; optional |
/// | `name = "…"` | the name of the function in its keys; optional: module and name |
///
/// Each is an expression in the function's arguments, and is evaluated before the function. It
/// borrows them: the function may still consume them.
///
/// The signature stays as it is. The function returns a `Result`. Its output is serialized as JSON
/// (`serde::Serialize`, `DeserializeOwned`): one that JSON does not bring back, such as a NaN, is
/// `Unwritable`. Its error is `Display` and `From<IdempotencyError>`: a variant with `#[from]`, or
/// `Box<dyn Error + Send + Sync>`, or `anyhow::Error`.
///
/// The keys of each function are its own, since its module and name are part of them. A function
/// that is renamed or moved needs a `name`. So does a function that is one for each type: generic
/// ones, methods and functions of types are refused without. With one, calls for all types share
/// their keys and results: where they must not, the type goes into the key. Of two functions of one
/// name in one process the second one is an error, which names both places.
///
/// # Guarantees and errors
///
/// Those of `TieredDedup::run`. A call runs the function at most once, but an error does not say
/// that it has not run: an output that could not be stored is dropped here, and the caller has the
/// `IdempotencyError` instead. After `LostLease` and `Complete` a retry may run the function again;
/// after `TooLarge` and `Unwritable` it does not, within the retention. Who needs the output calls
/// `run`.
///
/// # Compile errors
///
/// A function that is not `async` or returns nothing, one that needs a `name`, and an argument that
/// is missing, unknown or given twice:
///
#[cfg_attr(not(doctest), doc = include_str!("refused.md"))]
#[proc_macro_attribute]
pub fn once(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
