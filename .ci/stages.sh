# The stages of .ci/run, a function each.

# Nothing is compiled twice here, nor debugged: all have the tests' profile, and C the flags of
# scripts/test, so that what others have written is compiled once.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=0 RUST_BACKTRACE=0 CFLAGS="${CFLAGS--O0 -g0}"

skip() { printf 'SKIPPED: %s\n' "$1"; }
has_toolchain() { cargo "+$1" --version >/dev/null 2>&1; }
has_package() { dpkg -s "$@" >/dev/null 2>&1; }

# Debian's RocksDB, in place of minutes of C++. It is older, and lacks one function, which nothing
# here calls.
with_rocksdb=()
if has_package librocksdb-dev libclang-dev; then
    link='-C link-arg=-Wl,--defsym=rocksdb_write_buffer_manager_destroy=0'
    with_rocksdb=(ROCKSDB_LIB_DIR="$(dirname "$(find /usr/lib -name librocksdb.so -print -quit)")"
        RUSTFLAGS="--cfg rocksdb $link" RUSTDOCFLAGS="$link")
fi

install() { # a package of Debian
    [ "$(id -u)" = 0 ] || return 1
    [ -n "${updated:-}" ] || apt-get update -qq || return 1
    updated=yes
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null && echo "installed $1"
}

# Servers, a browser, libraries and compilers that tests need.
servers() {
    local server package
    for server in redis-server postgres pgbouncer nats-server rabbitmq-server valgrind; do
        [ -n "$(find /usr/bin /usr/sbin /usr/local/bin /usr/lib/postgresql -name "$server" -print -quit 2>/dev/null)" ] && continue
        package=${server/#postgres/postgresql}
        install "$package" || skip "tests with $server: it is not installed, and could not be (as root, from Debian)"
    done
    for package in libssl-dev pkg-config librocksdb-dev libclang-dev node-typescript prometheus qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross; do
        has_package "$package" || install "$package" || true
    done
    has_package librocksdb-dev libclang-dev ||
        skip 'RocksDB, a rival: librocksdb-dev and libclang-dev are not installed, and could not be (as root, from Debian)'
    python3 -c 'import moto.server' 2>/dev/null || python3 -m pip install --quiet --disable-pip-version-check 'moto[server]' 2>/dev/null ||
        skip 'hand-over through S3: there is no moto (PyPI: moto[server]), and it could not be installed'
}

format() {
    cargo fmt --all --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    scripts/house # no circles between files or folders
}

# For whoever waits for no tests. Elsewhere `all_tests` has them.
lints() { env "${with_rocksdb[@]}" cargo clippy --workspace --all-features --all-targets --profile test -- -D warnings; }

# What others have written, as all of the workspace needs it: built once, for the tests, and for the
# lints, which begin with it.
others() {
    export CARGO_TARGET_DIR=$PWD/target
    scripts/features copy
    cd target/features
    env "${with_rocksdb[@]}" cargo build --profile test -p others
}

each_feature_alone() { env "${with_rocksdb[@]}" scripts/features; }

dependencies() {
    local tree
    tree=$(cargo tree -p hapax --edges normal,build --prefix none --format '{p}' | cut -d' ' -f1 | sort -u | xargs)
    echo "The default build compiles: $tree"
    [ "$tree" = 'cfg-if getrandom hapax libc memmap2 xxhash-rust' ]
    scripts/deny
}

# And the lints of what tests don't build, the benchmarks. In the copy, where packages of others are
# as the tests need them.
documentation() {
    export CARGO_TARGET_DIR=$PWD/target RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/documented
    scripts/features copy
    cd target/features
    env "${with_rocksdb[@]}" cargo build --profile test --workspace --lib --bench '*' --all-features \
        --exclude testkit --exclude hapax-brokers --exclude hapax-orders --exclude hapax-patterns
}

readme_says() { grep -qFx "$1" README.md || { echo "README.md does not say: $1"; return 1; }; }

# By clippy's compiler, which says what it has to say and compiles: so the workspace is gone through
# once, not twice.
all_tests() {
    local runner
    readme_says scripts/test
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    env "${with_rocksdb[@]}" RUSTC_WRAPPER="$PWD/scripts/timed" \
        RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS='-D__CLIPPY_HACKERY__warnings' "$runner=$PWD/scripts/timed" scripts/test
    # What some tests leave out nobody says.
    [ -d "${HAPAX_DATA:-../shared/data}" ] || skip 'real traces: there is no ../shared/data, and HAPAX_DATA names no other place'
    grep -q avx512_vbmi2 /proc/cpuinfo || skip 'AVX-512: this processor has none'
    { [ "$(id -u)" = 0 ] && losetup -f >/dev/null 2>&1; } || skip 'power cuts: they take root and a loop device; the tests have killed processes'
}

# What decides, and what documents say.
core_tests() { env "${with_rocksdb[@]}" cargo test -p hapax --all-features --lib --test integration; }

# Those that a busy machine has failed before, beside load.
tests_beside_load() { env "${with_rocksdb[@]}" scripts/busy 1; }

# As the tests have built them. (Those that take a broker's address are begun by nobody here: the
# programs of examples/brokers, which its tests run against brokers, are the same.)
examples() {
    local example
    for example in examples/*.rs crates/*/examples/*.rs; do
        case $example in */orders_from_*) continue ;; esac
        "target/debug/examples/$(basename "$example" .rs)"
    done
}

# The README's first command, and what an id costs on each path.
main_job() {
    local job='cargo run --release -p hapax-cli -- filter --column id --stats examples/blocks.tsv.gz'
    readme_says "$job"
    unset CFLAGS
    [ "$($job | wc -l)" = 1067 ]
    # What is not in this build is said.
    [[ $(target/release/hapax bench 2>&1) == *'cargo install --locked --path crates/hapax-cli --features'*bench* ]]
    scripts/instructions
}

model() { # which, which tests
    RUSTFLAGS="--cfg modelled --cfg $1" CARGO_TARGET_DIR="target/$1" cargo test -p hapax --release --lib "${@:2}"
}
# Every interleaving of the protocols, judged at each completion: the same ones every time
# (scripts/explore draws others).
explorer() { HAPAX_EXPLORE_SEED=1 HAPAX_EXPLORE_SCENARIOS=100 model explore explore; }
# The memory orderings, complete up to three preemptions (the longest three scenarios: two, three in
# `long`). (What loom would log with is not called, and takes as long to compile as loom.)
loom() {
    local logging=(regex-automata regex-syntax tracing-subscriber)
    model loom $(printf -- '--config profile.release.package.%s.opt-level=0 ' "${logging[@]}")
}

fuzz_targets() {
    local target found
    if ! has_toolchain nightly || ! cargo fuzz --version >/dev/null 2>&1; then
        skip 'fuzz targets: they take a nightly toolchain and cargo-fuzz; the corpus was replayed by the tests'
        return
    fi
    # `filter` is a program with a hundred crates: campaigns fuzz it (scripts/fuzz).
    # As of all targets, their corpora were replayed by the tests. Half optimized, what is built here
    # is built in half of the time.
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
    cargo +nightly fuzz build --sanitizer none
    for target in $(cargo +nightly fuzz list | grep -vx filter); do
        found=$(mktemp -d) # not the committed corpus
        cargo +nightly fuzz run --sanitizer none "$target" "$found" "fuzz/corpus/$target" -- -max_total_time=4 -verbosity=0
        rm -r "$found"
    done
}

miri() { scripts/miri; }

aarch64() { CARGO_TARGET_DIR=target/beside scripts/aarch64; }

oldest_rust() {
    local oldest crates
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! has_toolchain "$oldest" && ! rustup -q toolchain install "$oldest" --profile minimal; then
        skip "the oldest Rust that Cargo.toml promises: there is no toolchain $oldest (rustup toolchain install $oldest)"
        return
    fi
    # The crates fjall and sqlx want later ones, as the README says; rivals promise nothing. Nothing
    # is linked, so librdkafka, a quarter of the work, is said to be there instead of compiled.
    crates=$(ls crates | grep -vxE 'hapax-(bench|fjall)|testkit' | sed 's/^/-p /')
    CARGO_TARGET_DIR=target/oldest cargo "+$oldest" check -p hapax $crates \
        --config "target.$(rustc -vV | sed -n 's/^host: //p').rdkafka.rustc-link-lib=['rdkafka']"
}

# The wheel of Python, from its file in an environment of its own, and its tests. (As debugged, and
# without TLS: the wheel for use takes minutes more.)
python() {
    local at=$PWD/target/python features='--no-default-features --features abi3'
    export CARGO_TARGET_DIR=$at PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
    if ! { python3 -m venv "$at/building" && "$at/building/bin/pip" install -q 'maturin>=1.9,<2' uv; } 2>/dev/null; then
        skip 'the wheel of Python: there is no python3 with venv, or no PyPI to install maturin from'
        return
    fi
    rm -rf "$at/wheels"
    PATH=$at/building/bin:$PATH maturin build -q --locked $features -m bindings/python/Cargo.toml -i "$at/building/bin/python" -o "$at/wheels"
    # A process in Rust, beside which the tests work. Built as maturin builds: nothing is twice.
    PYO3_CONFIG_FILE=$(echo "$at"/maturin/pyo3-config-*.txt) PYO3_BUILD_EXTENSION_MODULE=1 \
        PYO3_PYTHON=$at/building/bin/python cargo build -q --locked $features \
        --manifest-path bindings/python/Cargo.toml --example rust_side
    "$at/building/bin/uv" venv -q --clear --python "$at/building/bin/python" "$at/installed"
    "$at/building/bin/uv" pip install -q --python "$at/installed/bin/python" "$at"/wheels/*.whl \
        pip pytest hypothesis numpy pandas polars pyarrow duckdb celery
    cargo fmt --check --manifest-path bindings/python/Cargo.toml
    cd bindings/python
    "$at/installed/bin/python" -m pytest
}

site() {
    if command -v mdbook >/dev/null; then
        scripts/site
    else
        skip 'the site of the documents: there is no mdbook (cargo install mdbook --locked)'
    fi
}

packages() {
    export CARGO_TARGET_DIR=target/beside
    cargo package -p hapax
    cargo publish --workspace --dry-run --no-verify
}

# The long forms, which a week's run has and no other: random tests have more seeds, campaigns take
# longer, and 1 GB goes through the command. Optimized, they are over in less time.
long_tests() { HAPAX_LONG=1 CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_TARGET_DIR=target/long scripts/test; }
# All orders of turns; all random scenarios; the memory orderings, one preemption further where that
# takes long.
long_models() {
    cargo test -p hapax --release --lib long_memory::explored -- --ignored
    HAPAX_LONG=1 model explore explore
    HAPAX_LONG=1 loom
}
# What others have written has no more features than each crate asks for by itself.
long_features() { CARGO_TARGET_DIR=target/alone scripts/features alone; }

# Examples with frameworks that nothing else compiles.
long_frameworks() {
    local manifest=(--manifest-path examples/frameworks/Cargo.toml)
    export CARGO_TARGET_DIR=$PWD/target/frameworks
    cargo fmt --check "${manifest[@]}"
    cargo clippy --locked --all-targets "${manifest[@]}" -- -D warnings
    cargo test --locked "${manifest[@]}"
}

# The site of the documents, also where there is no mdBook: it takes a minute or two to compile.
long_site() {
    command -v mdbook >/dev/null || cargo install -q mdbook --locked --no-default-features --features search --root target/mdbook
    PATH=$PWD/target/mdbook/bin:$PATH scripts/site
}

# Drivers of the first and last version that is taken.
long_drivers() { scripts/drivers; }

nothing_left_behind() {
    local untracked
    git diff --exit-code
    untracked=$(git status --porcelain)
    [ -z "$untracked" ] || { echo "$untracked"; return 1; }
}
