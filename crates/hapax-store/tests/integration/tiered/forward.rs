//! Stores of tests that leave the work to other stores.

/// Implements `Store`: each call is forwarded to the store that is chosen by its keys and the
/// call's name; other methods follow, also `mark` and `claim` if they are excepted.
macro_rules! forward {
    (except mark and claim, $store:ty, |$this:ident, $keys:ident, $name:ident| $inner:expr, $($method:item)*) => {
        forward! {
            @ $store, $this, $keys, $name, $inner, [$($method)*]
        }
    };
    ($store:ty, |$this:ident, $keys:ident, $name:ident| $inner:expr, $($method:item)*) => {
        forward! {
            @ $store, $this, $keys, $name, $inner, [$($method)*]
            mark(Mark) -> Marked, |it| &it.key;
            claim(ClaimRequest) -> Claimed, |it| &it.key;
        }
    };
    (
        @ $store:ty, $this:ident, $keys:ident, $name:ident, $inner:expr, [$($method:item)*]
        $($given:ident($request:ty) -> $answer:ty, $key:expr;)*
    ) => {
        forward! {
            @@ $store, $this, $keys, $name, $inner, [$($method)*]
            $($given($request) -> $answer, $key;)*
            unmark(Unmark) -> Unmarked, |it| &it.key;
            complete(Completion) -> Held, |it| &it.hold.key;
            release(Hold) -> Held, |it| &it.key;
            fail(ClaimFailure) -> Held, |it| &it.hold.key;
            renew(Renewal) -> Held, |it| &it.hold.key;
            look_up(RecordKey) -> Known, |it| it;
            record(Record) -> (), |it| &it.key;
            forget(RecordKey) -> bool, |it| it;
        }
    };
    (
        @@ $store:ty, $this:ident, $keys:ident, $name:ident, $inner:expr, [$($method:item)*]
        $($call:ident($request:ty) -> $answer:ty, $key:expr;)*
    ) => {
        impl hapax_store::Store for $store {
            $($method)*

            $(async fn $call(&self, requests: &[$request]) -> hapax_store::Answers<$answer> {
                let key: fn(&$request) -> &hapax_store::RecordKey = $key;
                let ($this, $keys, $name) = (self, requests.iter().map(key), stringify!($call));
                $inner.$call(requests).await
            })*

            async fn expire(&self, _: usize) -> Result<Expired, StoreError> {
                Ok(Expired::default())
            }

            async fn scan(&self, _: Option<&Cursor>, _: usize) -> Result<Page, StoreError> {
                Ok(Page::default())
            }
        }
    };
}
