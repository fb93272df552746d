//! The SQL for the server.
//!
//! Each statement has one plan that is right whatever the statistics say, and takes its locks in
//! the order of its arrays: the requested keys come first, by `unnest`, and each row is found by
//! the primary key from within (`OFFSET 0` keeps the planner from turning that around).

use super::keys;
use super::names::Names;
use super::owned;

/// The path of our statements. Without it, operators, functions and types would be those of
/// whoever may make some in a schema of the role's path, and run as the role.
pub(super) const PATH: &str = "pg_catalog,pg_temp";

/// Returns the settings with which every statement of ours is planned and run. The planner then
/// looks rows up by their key, and plans no statement again at each call. (Nor is any compiled: a
/// plan that has to use what is switched off counts as so expensive that it would be.)
fn settings(timeout_ms: u128) -> [(&'static str, String); 9] {
    let timeout = || timeout_ms.to_string();
    [
        ("statement_timeout", timeout()),
        ("idle_in_transaction_session_timeout", timeout()),
        ("plan_cache_mode", "force_generic_plan".into()),
        ("enable_seqscan", "off".into()),
        ("enable_hashjoin", "off".into()),
        ("enable_mergejoin", "off".into()),
        ("jit", "off".into()),
        ("client_min_messages", "warning".into()),
        ("search_path", PATH.into()),
    ]
}

/// Returns settings for a session of our own, in its first message, and one setting with a name
/// that nobody else has, which shows that the server has got them.
pub(super) fn startup_options(timeout_ms: u128) -> String {
    let ours = settings(timeout_ms).map(|(name, value)| format!("-c {name}={value}"));
    format!("{} -c hapax.session=on", ours.join(" "))
}

/// A query for the setting with a name that nobody else has.
pub(super) const HAS_SETTINGS: &str = "SELECT pg_catalog.current_setting('hapax.session', true)";

/// Returns settings for a transaction, behind its `BEGIN`: they end with it.
pub(super) fn local(timeout_ms: u128) -> String {
    settings(timeout_ms).map(|(name, value)| format!("SET LOCAL {name} = {value}; ")).concat()
}

/// Begins a transaction with these settings.
pub(super) fn begin_plain(settings: &str) -> String {
    format!("BEGIN ISOLATION LEVEL READ COMMITTED; {settings}")
}

/// Begins a transaction during which no partition begins or ends.
pub(super) fn begin(settings: &str, names: &Names, family: i32) -> String {
    let class = names.lock_class();
    format!("{}SELECT pg_advisory_xact_lock_shared({class}, {family})", begin_plain(settings))
}

/// Begins a transaction that waits for locks no longer than this.
fn begin_briefly(settings: &str, lock_timeout_ms: u128) -> String {
    format!("{}SET LOCAL lock_timeout = {lock_timeout_ms}; ", begin_plain(settings))
}

/// Waits for writers that are at work, and lets no others begin until the transaction ends.
fn stop_writers(names: &Names, family: i32) -> String {
    format!("SELECT pg_advisory_xact_lock({}, {family}); ", names.lock_class())
}

/// Selects the transactions that [`rotate`] would wait for: writers.
pub(super) fn writers(names: &Names, family: i32) -> String {
    // The server shows the two halves of an advisory lock as unsigned numbers.
    let (class, object) = (names.lock_class().cast_unsigned(), family.cast_unsigned());
    format!(
        "SELECT l.virtualtransaction AS holder FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM \
         pg_backend_pid() AND l.locktype = 'advisory' AND l.classid = {class}::oid AND l.objid = {object}::oid \
         AND l.objsubid = 2"
    )
}

/// Selects the transactions that [`drop`] would wait for: writers and readers.
pub(super) fn users(names: &Names, family: i32, bucket: i32) -> String {
    let (records, partition) = (names.records(family), names.partition(family, bucket));
    format!(
        "{} UNION SELECT l.virtualtransaction FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM \
         pg_backend_pid() AND l.locktype = 'relation' \
         AND l.relation IN (to_regclass('{records}'), to_regclass('{partition}'))",
        writers(names, family)
    )
}

/// Selects the bucket that is written into, and a flag that there are earlier ones. It selects none
/// outside of a transaction that began before: should `BEGIN` ever fail, the statements that were
/// sent behind it must not run without the lock, and a row without a bucket is refused.
fn current(names: &Names, family: i32) -> String {
    let buckets = names.table("buckets");
    format!(
        "current AS MATERIALIZED (SELECT max(bucket) AS bucket, min(bucket) < max(bucket) AS has_earlier \
         FROM {buckets} WHERE family = {family} AND now() <> statement_timestamp())"
    )
}

/// The variant of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    pub(super) state: i16,
    pub(super) has_token: bool,
    /// True if all records last equally long, have the same result or none, and no fingerprints.
    /// Columns that none has are not even mentioned.
    pub(super) is_plain: bool,
    /// True if they are plain, and have a result.
    pub(super) has_result: bool,
}

/// Inserts ids without a record: keys, attempts, and in microseconds the lifetime of all, and their
/// result; or, unless it is plain, the lifetime of each, fingerprints, results. Answers in one row
/// the number of inserted rows, the inserted keys in order unless all were inserted, and their
/// token.
pub(super) fn insert(names: &Names, family: i32, insertion: Insertion) -> String {
    let (records, current) = (names.records(family), current(names, family));
    let Insertion { state, has_token, is_plain, has_result } = insertion;
    let (now, token) = if has_token {
        ("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", "(SELECT now FROM token)")
    } else {
        ("NULL::bigint", "NULL")
    };
    let (columns, asked, lasts, more) = if is_plain {
        let (column, result) = if has_result { (", result", ", $4::bytea") } else { ("", "") };
        (column, "unnest($1::bytea[], $2::bigint[]) AS u(key, attempt)", "(SELECT lasts FROM token)", result)
    } else {
        (
            ", fingerprint, result",
            "unnest($1::bytea[], $2::bigint[], $3::float8[], $4::bytea[], $5::bytea[]) \
             AS u(key, attempt, lasts, fingerprint, result)",
            "u.lasts * interval '1 microsecond'",
            ", u.fingerprint, u.result",
        )
    };
    let all_last = if is_plain { "$3::float8 * interval '1 microsecond'" } else { "NULL::interval" };
    format!(
        "WITH {current}, token AS MATERIALIZED (SELECT {now} AS now, {all_last} AS lasts), \
         inserted AS (INSERT INTO {records} (expires_at, attempt, token, bucket, state, key{columns}) \
         SELECT clock_timestamp() + {lasts}, u.attempt, {token}, (SELECT bucket FROM current), {state}::smallint, \
         u.key{more} FROM {asked} \
         WHERE NOT ((SELECT has_earlier FROM current) AND EXISTS (SELECT FROM {records} r \
         WHERE r.bucket < (SELECT bucket FROM current) AND r.key = u.key OFFSET 0)) \
         ON CONFLICT DO NOTHING RETURNING key) \
         SELECT count(*) AS inserted, CASE WHEN count(*) < cardinality($1) THEN array_agg(key) END AS keys, \
         (SELECT now FROM token) AS token FROM inserted"
    )
}

/// Finds rows, and locks them: `$1` keys, `$2` true if results are wanted. Time is read after the
/// lock is taken.
pub(super) fn lock(names: &Names, family: i32) -> String {
    let (current, asked) = (current(names, family), asked(names, family, "FOR UPDATE"));
    format!("WITH {current} SELECT {FOUND}, (SELECT bucket FROM current) AS current FROM {asked}")
}

/// Finds rows: `$1` keys, `$2` true if results are wanted.
pub(super) fn look(names: &Names, family: i32) -> String {
    format!("SELECT {FOUND}, r.bucket AS current FROM {}", asked(names, family, ""))
}

const FOUND: &str = "u.n, r.bucket, r.state, r.token, r.attempt, r.fingerprint, r.expires_at, \
     CASE WHEN $2::bool OR r.state < 3 THEN r.result END AS result, clock_timestamp() AS now";

fn asked(names: &Names, family: i32, locking: &str) -> String {
    let records = names.records(family);
    format!(
        "unnest($1::bytea[]) WITH ORDINALITY AS u(key, n), \
         LATERAL (SELECT * FROM {records} s WHERE s.key = u.key {locking} OFFSET 0) r"
    )
}

/// Writes rows that are locked into the current bucket, over those that are there: keys, states,
/// tokens, attempts, fingerprints, times, results.
pub(super) fn put(names: &Names, family: i32) -> String {
    let (records, current) = (names.records(family), current(names, family));
    format!(
        "WITH {current} INSERT INTO {records} (expires_at, attempt, token, bucket, state, key, fingerprint, result) \
         SELECT u.expires_at, u.attempt, u.token, (SELECT bucket FROM current), u.state, u.key, u.fingerprint, u.result \
         FROM unnest($1::bytea[], $2::smallint[], $3::bigint[], $4::bigint[], \
         $5::bytea[], $6::timestamptz[], $7::bytea[]) \
         AS u(key, state, token, attempt, fingerprint, expires_at, result) \
         ON CONFLICT (key, bucket) DO UPDATE SET state = excluded.state, token = excluded.token, \
         attempt = excluded.attempt, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, \
         result = excluded.result"
    )
}

/// Removes rows that are locked and have been written elsewhere: `$1` buckets, `$2` keys.
pub(super) fn remove(names: &Names, family: i32) -> String {
    let records = names.records(family);
    format!(
        "DELETE FROM {records} r USING unnest($1::int[], $2::bytea[]) AS u(bucket, key) \
         WHERE r.bucket = u.bucket AND r.key = u.key"
    )
}

/// Selects the rows of a bucket behind a key, in order, of whatever state: `$1` the bucket, `$2`
/// the key, `$3` the number of rows.
pub(super) fn page(names: &Names, family: i32) -> String {
    let (records, scopes, scope) = (names.records(family), names.table("scopes"), keys::scope_of("r.key"));
    format!(
        "SELECT r.key, r.state, r.token, r.attempt, r.fingerprint, r.expires_at, clock_timestamp() AS now, \
         CASE WHEN r.state < 3 THEN r.result END AS result, \
         (SELECT name FROM {scopes} s WHERE s.scope = {scope}) AS name \
         FROM {records} r WHERE r.bucket = $1 AND r.key > $2 ORDER BY r.key LIMIT $3"
    )
}

/// Selects the first bucket from `$1`, `$2` on.
pub(super) fn bucket_from(names: &Names) -> String {
    let buckets = names.table("buckets");
    format!("SELECT family, bucket FROM {buckets} WHERE (family, bucket) >= ($1, $2) ORDER BY family, bucket LIMIT 1")
}

/// Selects the numbers of scopes, and flags for those that have tables of their own: `$1` their
/// names.
pub(super) fn scopes(names: &Names) -> String {
    let (scopes, buckets) = (names.table("scopes"), names.table("buckets"));
    format!(
        "SELECT name, scope, EXISTS (SELECT FROM {buckets} WHERE family = scope) AS has_table \
         FROM {scopes} WHERE name = ANY($1::text[])"
    )
}

/// Checks whether the table of migrations is one.
pub(super) fn is_there(names: &Names) -> String {
    owned::is_table(names.schema(), &names.bare("migrations"))
}

/// Selects the last migration that has run, and the layout that was chosen then.
pub(super) fn version(names: &Names) -> String {
    format!("SELECT version, layout FROM {} ORDER BY version DESC LIMIT 1", names.table("migrations"))
}

/// Assigns numbers to scopes that have none: `$1` their names.
pub(super) fn insert_scopes(names: &Names) -> String {
    format!("INSERT INTO {} (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", names.table("scopes"))
}

/// Selects the steps of the clean-up, at most `$2` of them: partitions that were open for `$1`
/// microseconds, closed ones whose last expiry is not known yet, and those whose records have all
/// expired. Those come first that readers are least in the way of, then the oldest. A partition
/// that was opened by a clock that was ahead is closed, too.
pub(super) fn due(names: &Names) -> String {
    let buckets = names.table("buckets");
    format!(
        "SELECT family, bucket, \
         CASE WHEN bucket = last THEN 'close' WHEN live_until IS NULL THEN 'survey' ELSE 'drop' END AS what \
         FROM (SELECT *, max(bucket) OVER (PARTITION BY family) AS last FROM {buckets}) b \
         WHERE CASE WHEN bucket = last THEN opened_at NOT BETWEEN clock_timestamp() - $1::float8 * interval '1 microsecond' \
         AND clock_timestamp() + $1::float8 * interval '1 microsecond' \
         ELSE coalesce(live_until <= clock_timestamp(), true) END \
         ORDER BY bucket = last DESC, live_until IS NULL DESC, opened_at, family, bucket LIMIT $2"
    )
}

/// Checks for any row in a bucket.
pub(super) fn is_filled(names: &Names, family: i32, bucket: i32) -> String {
    format!("SELECT EXISTS (SELECT FROM {}) AS is_filled", names.partition(family, bucket))
}

/// Checks that a partition of the table of records has the name of this bucket's.
fn is_made(names: &Names, family: i32, bucket: i32) -> String {
    let (records, partition) = (names.records(family), names.partition(family, bucket));
    format!(
        "EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = '{records}'::regclass AND i.inhrelid = to_regclass('{partition}'))"
    )
}

/// Makes the partition of a bucket. It waits for nobody, and nobody who reads or writes waits for
/// it. A session that comes to the bucket has heard of it: it is opened after this is committed.
pub(super) fn make(settings: &str, names: &Names, family: i32, bucket: i32) -> String {
    let (records, partition) = (names.records(family), names.partition(family, bucket));
    let (begin, is_made) = (begin_plain(settings), is_made(names, family, bucket));
    format!(
        "{begin}LOCK TABLE ONLY {records} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; \
         DO $hapax$ BEGIN IF NOT {is_made} THEN CREATE TABLE {partition} (LIKE {records} INCLUDING ALL); \
         ALTER TABLE {records} ATTACH PARTITION {partition} FOR VALUES IN ({bucket}); END IF; END $hapax$; COMMIT"
    )
}

/// Closes a bucket, and opens the next, which was [made](make), unless another process was faster.
///
/// The server loses a partition that comes while a session is looking the partitions up: the
/// session does not know it until it is told of another change. So all are told here (of a setting
/// that stays what it is), where no writer is at it: whoever writes afterwards knows the partition.
pub(super) fn rotate(settings: &str, names: &Names, family: i32, bucket: i32, lock_timeout_ms: u128) -> String {
    let (records, buckets, next) = (names.records(family), names.table("buckets"), bucket + 1);
    let (begin, is_made) = (begin_briefly(settings, lock_timeout_ms), is_made(names, family, next));
    let stop_writers = stop_writers(names, family);
    format!(
        "{begin}{stop_writers}ALTER TABLE ONLY {records} ALTER COLUMN bucket SET STATISTICS -1; \
         INSERT INTO {buckets} (family, bucket) SELECT {family}, {next} \
         WHERE {bucket} = (SELECT max(bucket) FROM {buckets} WHERE family = {family}) AND {is_made}; COMMIT"
    )
}

/// Reopens an empty bucket, which goes on as a young one.
pub(super) fn reopen(settings: &str, names: &Names, family: i32, bucket: i32) -> String {
    let (begin, buckets) = (begin_plain(settings), names.table("buckets"));
    format!(
        "{begin}UPDATE {buckets} SET opened_at = clock_timestamp() WHERE family = {family} AND bucket = {bucket}; COMMIT"
    )
}

/// The microseconds of two hundred years.
const YEARS_200: u64 = 200 * 366 * 86_400 * 1_000_000;

/// Finds the last expiry and the number of the records in a closed bucket. Rows only ever leave it,
/// so the answer remains true as a bound. What a claim leaves behind begins with the microseconds
/// for which it is in doubt.
pub(super) fn survey(settings: &str, names: &Names, family: i32, bucket: i32) -> String {
    let (buckets, partition) = (names.table("buckets"), names.partition(family, bucket));
    let begin = begin_plain(settings);
    format!(
        "{begin}UPDATE {buckets} b SET live_until = s.live_until, records = s.records \
         FROM (SELECT coalesce(max(expires_at + CASE WHEN state < 3 AND octet_length(result) >= 16 THEN \
         least(greatest(('x' || encode(substring(result FOR 8), 'hex'))::bit(64)::bigint, 0), {YEARS_200}) \
         * interval '1 microsecond' ELSE interval '0' END), '-infinity') AS live_until, \
         count(*) AS records FROM {partition}) s \
         WHERE b.family = {family} AND b.bucket = {bucket} AND b.live_until IS NULL \
         AND b.bucket < (SELECT max(bucket) FROM {buckets} WHERE family = {family}); \
         COMMIT"
    )
}

/// Removes a bucket that is closed and whose records have all expired. Answers with the number of
/// its records, unless another process has done it. Behind a pooler the server may be another one
/// than the one that was asked what is due, which has lost what made this partition an old one.
pub(super) fn drop(settings: &str, names: &Names, family: i32, bucket: i32, lock_timeout_ms: u128) -> String {
    let (buckets, partition) = (names.table("buckets"), names.partition(family, bucket));
    let (begin, stop_writers) = (begin_briefly(settings, lock_timeout_ms), stop_writers(names, family));
    format!(
        "{begin}{stop_writers}DELETE FROM {buckets} WHERE family = {family} AND bucket = {bucket} \
         AND live_until <= clock_timestamp() AND bucket < (SELECT max(bucket) FROM {buckets} WHERE family = {family}) \
         RETURNING records AS dropped; \
         DO $hapax$ BEGIN IF NOT EXISTS (SELECT FROM {buckets} WHERE family = {family} AND bucket = {bucket}) THEN \
         DROP TABLE IF EXISTS {partition}; END IF; END $hapax$; COMMIT"
    )
}
