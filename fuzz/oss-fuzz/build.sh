#!/bin/bash -eu
# Builds every target into $OUT, each with its seeds, its dictionary and its options, as OSS-Fuzz wants them. The base image
# has cargo-fuzz and a nightly toolchain, and says by its variables which sanitizer it is to be.
cd "$SRC/hapax"
cargo fuzz build -O --debug-assertions --all-features

built=fuzz/target/x86_64-unknown-linux-gnu/release
for target in $(cargo fuzz list); do
    cp "$built/$target" "$OUT/"
    zip -q -j "$OUT/${target}_seed_corpus.zip" "fuzz/corpus/$target"/*
    if [ -f "fuzz/dictionaries/$target.dict" ]; then
        cp "fuzz/dictionaries/$target.dict" "$OUT/"
    fi
    # Small files are enough: what is long in them is said by a few bytes.
    printf '[libfuzzer]\nmax_len = 4096\n' >"$OUT/$target.options"
done
