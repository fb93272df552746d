-- What Tables::migrations() was for public.old_* before version 3.
BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_advisory_xact_lock(-1373665826072242413);
-- Other versions are left alone: an older one, whose tables are others, and a later one, whose
-- functions would become older ones.
DO $hapax$
DECLARE
    found integer;
BEGIN
    IF to_regclass('"public"."old_flow_migrations"') IS NOT NULL THEN
        EXECUTE 'SELECT max(version) FROM "public"."old_flow_migrations"' INTO found;
        IF found <> 2 THEN
            RAISE EXCEPTION 'expected no tables public.old_*, or those of version 2, got version %', found
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
END $hapax$;
-- Which migrations have run, and the oldest code that may use what they made. A migration that
-- older code must not use gives new names to the functions that this code calls.
CREATE TABLE IF NOT EXISTS "public"."old_flow_migrations" (
    version integer PRIMARY KEY,
    compatible_from integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- The partitions of marks, called buckets: numbers without gaps. closed_at: since when nobody
-- writes into it any more.
CREATE TABLE IF NOT EXISTS "public"."old_mark_buckets" (
    bucket integer PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz
);
-- Which buckets are looked at, from the oldest to the newest, and which are written into: the
-- newest, and while it is double, the one before it, too. One row.
CREATE TABLE IF NOT EXISTS "public"."old_mark_state" (
    one integer PRIMARY KEY CHECK (one = 1),
    oldest integer NOT NULL,
    newest integer NOT NULL,
    is_double boolean NOT NULL
);
-- Ids that a consumer has processed, or received. A bucket is kept in the slot of its number modulo
-- 64, which is a partition, made when it is first needed and emptied when its bucket is over.
CREATE TABLE IF NOT EXISTS "public"."old_marks" (
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot integer NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    PRIMARY KEY (consumer, id, slot)
) PARTITION BY LIST (slot);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM "public"."old_mark_state") THEN
        CREATE TABLE "public"."old_marks_1" PARTITION OF "public"."old_marks" FOR VALUES IN (1);
        INSERT INTO "public"."old_mark_buckets" (bucket) VALUES (1);
        INSERT INTO "public"."old_mark_state" VALUES (1, 1, 1, false);
    END IF;
END $$;
-- Marks an id for a consumer. Null if it is first; else when it was marked, in microseconds since
-- 1970.
--
-- Why no id is first twice
--
-- State and rule. Writers look into all buckets from the oldest to the newest. In a single state
-- they write into the newest bucket; in a double state into the newest and the one before it, and
-- an id is first only if neither had it. States come in the order
--     single a, double a b, single b, double b c, single c, ...
-- Whoever writes holds, shared and until its transaction ends, the advisory lock of the newest
-- bucket that it writes into; "public"."old_rotate" ends "double a b" only when nobody holds that of a.
--
-- Any two that write at the same time have a bucket in common. While the state is "single b",
-- nobody holds the lock of a: it was free when that state began, and who gets it later looks at the
-- state again, sees another newest bucket, and goes round. So all hold that of b (or, once "double
-- b c" has begun, of c), and write into b. While it is "double a b", some hold that of a, and some
-- that of b, and all write into a; nobody holds that of the one before a, as above. In the bucket
-- that they have in common the primary key decides: who comes second waits until the first one's
-- transaction has ended.
--
-- Who was committed before is seen, or refused:
-- * READ COMMITTED: each statement of a function sees what was committed before it. The lock is held
--   first, then marks are looked at, and written last, by a statement that writes only if the state
--   is still the one that was read before the lock. A mark that the look does not see is of
--   somebody who had not committed then: of the same time.
-- * REPEATABLE READ, SERIALIZABLE: all is seen as of the transaction's first statement. If the
--   state has changed since, the server refuses to lock its row (SQLSTATE 40001); if not, whoever
--   committed since is of the same state, so has a bucket in common, and there the server refuses
--   as well, to ignore a row that cannot be seen. The row's lock is given back at once by undoing a
--   subtransaction, or "public"."old_rotate" would never find the row free.
--
-- It does not matter where "public"."old_rotate" dies: each of its steps is one transaction, and any state is
-- one to go on from. Two of them exclude each other by the state's row.
--
-- Two that mark the same ids in the same order do not wait in a circle: of two buckets, the older
-- is always written first.
CREATE OR REPLACE FUNCTION "public"."old_once"(consumer text, id bytea) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    is_double boolean;
    looked integer;
    seen_at timestamptz;
    first_at timestamptz;
BEGIN
    FOR turn IN 1..10 LOOP
        -- What is read here may be old by the time that the lock is held: whatever writes looks
        -- again.
        SELECT s.oldest, s.newest, s.is_double INTO STRICT oldest, newest, is_double FROM "public"."old_mark_state" s
            WHERE s.one = 1 AND pg_advisory_xact_lock_shared(3163847956112582089 + s.newest) IS NOT NULL;
        looked := newest - oldest + 1;
        IF turn = 1 THEN
            -- Those that are not written into any more. The others answer when they are.
            looked := looked - 1 - is_double::integer;
            IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
                BEGIN
                    PERFORM FROM "public"."old_mark_state" s WHERE s.one = 1 FOR SHARE NOWAIT;
                    RAISE EXCEPTION 'held' USING ERRCODE = 'HX000';
                EXCEPTION
                    WHEN SQLSTATE 'HX000' THEN NULL;
                    WHEN lock_not_available THEN
                        RAISE EXCEPTION 'the buckets of marks are about to change'
                            USING ERRCODE = 'serialization_failure';
                END;
            END IF;
        END IF;
        IF is_double THEN
            -- A transaction that wrote before the newest slot was made has not heard of it. To lock
            -- a table for the first time makes a session listen, so here is one that is not used
            -- elsewhere; or another one, for a transaction that was in the double state before,
            -- too. It has been in no third: what it holds lets no more buckets begin.
            IF newest & 1 = 0 THEN
                PERFORM FROM "public"."old_mark_buckets" b WHERE b.bucket = newest;
            ELSE
                PERFORM FROM "public"."old_flow_migrations" v WHERE v.version = 0;
            END IF;
        END IF;
        IF looked > 0 THEN
            IF (0 - oldest) & 63 < looked OR (oldest - 0) & 63 < 8 THEN
                IF (0 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 0 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (1 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 1 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (2 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 2 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (3 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 3 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (4 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 4 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (5 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 5 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (6 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 6 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (7 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 7 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (8 - oldest) & 63 < looked OR (oldest - 8) & 63 < 8 THEN
                IF (8 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 8 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (9 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 9 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (10 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 10 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (11 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 11 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (12 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 12 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (13 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 13 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (14 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 14 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (15 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 15 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (16 - oldest) & 63 < looked OR (oldest - 16) & 63 < 8 THEN
                IF (16 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 16 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (17 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 17 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (18 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 18 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (19 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 19 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (20 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 20 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (21 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 21 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (22 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 22 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (23 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 23 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (24 - oldest) & 63 < looked OR (oldest - 24) & 63 < 8 THEN
                IF (24 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 24 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (25 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 25 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (26 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 26 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (27 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 27 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (28 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 28 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (29 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 29 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (30 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 30 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (31 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 31 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (32 - oldest) & 63 < looked OR (oldest - 32) & 63 < 8 THEN
                IF (32 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 32 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (33 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 33 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (34 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 34 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (35 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 35 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (36 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 36 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (37 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 37 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (38 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 38 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (39 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 39 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (40 - oldest) & 63 < looked OR (oldest - 40) & 63 < 8 THEN
                IF (40 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 40 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (41 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 41 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (42 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 42 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (43 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 43 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (44 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 44 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (45 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 45 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (46 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 46 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (47 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 47 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (48 - oldest) & 63 < looked OR (oldest - 48) & 63 < 8 THEN
                IF (48 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 48 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (49 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 49 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (50 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 50 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (51 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 51 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (52 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 52 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (53 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 53 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (54 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 54 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (55 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 55 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
            IF (56 - oldest) & 63 < looked OR (oldest - 56) & 63 < 8 THEN
                IF (56 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 56 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (57 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 57 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (58 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 58 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (59 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 59 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (60 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 60 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (61 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 61 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (62 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 62 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
                IF (63 - oldest) & 63 < looked THEN
                    SELECT m.first_at INTO seen_at FROM "public"."old_marks" m
                        WHERE m.slot = 63 AND m.consumer = $1 AND m.id = $2;
                    first_at := least(first_at, seen_at);
                END IF;
            END IF;
        END IF;
        IF first_at IS NOT NULL THEN
            RETURN extract(epoch FROM first_at) * 1000000;
        ELSIF NOT is_double THEN
            INSERT INTO "public"."old_marks" (slot, consumer, id) SELECT newest & 63, $1, $2 FROM "public"."old_mark_state" s
                WHERE s.one = 1 AND s.newest = newest AND NOT s.is_double ON CONFLICT DO NOTHING;
            IF FOUND THEN RETURN NULL; END IF;
        ELSE
            INSERT INTO "public"."old_marks" (slot, consumer, id) SELECT (newest - 1) & 63, $1, $2 FROM "public"."old_mark_state" s
                WHERE s.one = 1 AND s.newest = newest AND s.is_double ON CONFLICT DO NOTHING;
            IF FOUND THEN
                INSERT INTO "public"."old_marks" (slot, consumer, id) VALUES (newest & 63, $1, $2)
                    ON CONFLICT DO NOTHING;
                IF FOUND THEN RETURN NULL; END IF;
            END IF;
        END IF;
        -- The state has moved; or somebody has marked it, and is seen from now on.
    END LOOP;
    RAISE EXCEPTION 'an id was neither marked nor there in 10 turns'
        USING ERRCODE = 'serialization_failure';
END $hapax$;
-- Marks ids for a consumer, each once however often it is named: all of them, with when they were
-- marked, and whether that was now. Written in the order of their bytes, so that two batches do not
-- wait in a circle. For the rest see "public"."old_once".
CREATE OR REPLACE FUNCTION "public"."old_once_batch"(consumer text, ids bytea[])
RETURNS TABLE (marked_id bytea, marked_at bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    is_double boolean;
    looked integer;
    rest bytea[];
    taken bytea[];
    taken_at timestamptz[];
    known bytea[];
    known_at timestamptz[];
BEGIN
    SELECT array_agg(DISTINCT u.id ORDER BY u.id) INTO rest FROM unnest($2) u(id);
    FOR turn IN 1..10 LOOP
        -- What is read here may be old by the time that the lock is held: whatever writes looks
        -- again.
        SELECT s.oldest, s.newest, s.is_double INTO STRICT oldest, newest, is_double FROM "public"."old_mark_state" s
            WHERE s.one = 1 AND pg_advisory_xact_lock_shared(3163847956112582089 + s.newest) IS NOT NULL;
        looked := newest - oldest + 1;
        IF turn = 1 THEN
            -- Those that are not written into any more. The others answer when they are.
            looked := looked - 1 - is_double::integer;
            IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
                BEGIN
                    PERFORM FROM "public"."old_mark_state" s WHERE s.one = 1 FOR SHARE NOWAIT;
                    RAISE EXCEPTION 'held' USING ERRCODE = 'HX000';
                EXCEPTION
                    WHEN SQLSTATE 'HX000' THEN NULL;
                    WHEN lock_not_available THEN
                        RAISE EXCEPTION 'the buckets of marks are about to change'
                            USING ERRCODE = 'serialization_failure';
                END;
            END IF;
        END IF;
        IF is_double THEN
            -- A transaction that wrote before the newest slot was made has not heard of it. To lock
            -- a table for the first time makes a session listen, so here is one that is not used
            -- elsewhere; or another one, for a transaction that was in the double state before,
            -- too. It has been in no third: what it holds lets no more buckets begin.
            IF newest & 1 = 0 THEN
                PERFORM FROM "public"."old_mark_buckets" b WHERE b.bucket = newest;
            ELSE
                PERFORM FROM "public"."old_flow_migrations" v WHERE v.version = 0;
            END IF;
        END IF;
        known := NULL;
        known_at := NULL;
        IF looked > 0 THEN
            IF (0 - oldest) & 63 < looked OR (oldest - 0) & 63 < 8 THEN
                IF (0 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 0 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (1 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 1 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (2 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 2 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (3 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 3 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (4 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 4 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (5 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 5 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (6 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 6 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (7 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 7 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (8 - oldest) & 63 < looked OR (oldest - 8) & 63 < 8 THEN
                IF (8 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 8 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (9 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 9 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (10 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 10 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (11 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 11 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (12 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 12 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (13 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 13 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (14 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 14 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (15 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 15 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (16 - oldest) & 63 < looked OR (oldest - 16) & 63 < 8 THEN
                IF (16 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 16 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (17 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 17 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (18 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 18 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (19 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 19 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (20 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 20 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (21 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 21 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (22 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 22 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (23 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 23 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (24 - oldest) & 63 < looked OR (oldest - 24) & 63 < 8 THEN
                IF (24 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 24 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (25 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 25 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (26 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 26 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (27 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 27 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (28 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 28 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (29 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 29 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (30 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 30 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (31 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 31 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (32 - oldest) & 63 < looked OR (oldest - 32) & 63 < 8 THEN
                IF (32 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 32 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (33 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 33 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (34 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 34 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (35 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 35 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (36 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 36 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (37 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 37 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (38 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 38 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (39 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 39 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (40 - oldest) & 63 < looked OR (oldest - 40) & 63 < 8 THEN
                IF (40 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 40 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (41 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 41 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (42 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 42 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (43 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 43 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (44 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 44 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (45 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 45 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (46 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 46 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (47 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 47 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (48 - oldest) & 63 < looked OR (oldest - 48) & 63 < 8 THEN
                IF (48 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 48 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (49 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 49 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (50 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 50 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (51 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 51 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (52 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 52 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (53 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 53 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (54 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 54 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (55 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 55 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
            IF (56 - oldest) & 63 < looked OR (oldest - 56) & 63 < 8 THEN
                IF (56 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 56 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (57 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 57 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (58 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 58 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (59 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 59 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (60 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 60 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (61 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 61 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (62 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 62 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
                IF (63 - oldest) & 63 < looked THEN
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM "public"."old_marks" o
                            WHERE o.slot = 63 AND o.consumer = $1 AND o.id = u.id OFFSET 0
                        ) m;
                END IF;
            END IF;
        END IF;
        IF known IS NOT NULL THEN
            RETURN QUERY SELECT u.id, (extract(epoch FROM min(u.at)) * 1000000)::bigint, false
                FROM unnest(known, known_at) u(id, at) GROUP BY u.id;
            SELECT array_agg(u.id) INTO rest FROM (SELECT unnest(rest) EXCEPT SELECT unnest(known)) u(id);
        END IF;
        IF NOT is_double THEN
            WITH written AS (
                INSERT INTO "public"."old_marks" AS m (slot, consumer, id)
                SELECT newest & 63, $1, u.id FROM "public"."old_mark_state" s, unnest(rest) u(id)
                WHERE s.one = 1 AND s.newest = newest AND NOT s.is_double ORDER BY u.id
                ON CONFLICT DO NOTHING RETURNING m.id, m.first_at
            ) SELECT array_agg(w.id), array_agg(w.first_at) INTO taken, taken_at FROM written w;
        ELSE
            WITH written AS (
                INSERT INTO "public"."old_marks" AS m (slot, consumer, id)
                SELECT (newest - 1) & 63, $1, u.id FROM "public"."old_mark_state" s, unnest(rest) u(id)
                WHERE s.one = 1 AND s.newest = newest AND s.is_double ORDER BY u.id
                ON CONFLICT DO NOTHING RETURNING m.id
            ) SELECT array_agg(w.id) INTO taken FROM written w;
            WITH written AS (
                INSERT INTO "public"."old_marks" AS m (slot, consumer, id)
                SELECT newest & 63, $1, u.id FROM unnest(taken) u(id) ORDER BY u.id
                ON CONFLICT DO NOTHING RETURNING m.id, m.first_at
            ) SELECT array_agg(w.id), array_agg(w.first_at) INTO taken, taken_at FROM written w;
        END IF;
        RETURN QUERY SELECT u.id, (extract(epoch FROM u.at) * 1000000)::bigint, true
            FROM unnest(taken, taken_at) u(id, at);
        IF cardinality(taken) IS NOT DISTINCT FROM cardinality(rest) THEN
            RETURN;
        END IF;
        -- The state has moved; or somebody has marked them, and is seen from now on.
        SELECT array_agg(u.id) INTO rest FROM (SELECT unnest(rest) EXCEPT SELECT unnest(taken)) u(id);
    END LOOP;
    RAISE EXCEPTION 'ids were neither marked nor there in 10 turns'
        USING ERRCODE = 'serialization_failure';
END $hapax$;
-- One step of what is due: a bucket is begun every so many microseconds, and is kept for so many
-- after it was closed. What was done: 'made' (a slot), 'begun' (a double state), 'closed' (a single
-- one again), 'left' (not looked at any more), 'emptied'; 'put off' if somebody is in the way;
-- 'nothing'.
--
-- Nothing is waited for, and nothing is locked that writers or readers of the marks lock, but for
-- the partition of a bucket that is not looked at any more, and only if nobody has it.
CREATE OR REPLACE FUNCTION "public"."old_rotate"(every bigint, keep bigint) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $hapax$
DECLARE
    state record;
    over integer;
    slot text;
    has_rows boolean := false;
    is_in_the_way boolean := false;
BEGIN
    SELECT s.oldest, s.newest, s.is_double INTO state FROM "public"."old_mark_state" s WHERE s.one = 1
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'put off';
    END IF;

    IF state.is_double THEN
        -- Nobody writes into the older one alone any more, and nobody will.
        IF pg_try_advisory_xact_lock(3163847956112582089 + state.newest - 1) THEN
            UPDATE "public"."old_mark_buckets" b SET closed_at = clock_timestamp() WHERE b.bucket = state.newest - 1;
            UPDATE "public"."old_mark_state" s SET is_double = false WHERE s.one = 1;
            RETURN 'closed';
        END IF;
        is_in_the_way := true;
    ELSIF EXISTS (SELECT FROM "public"."old_mark_buckets" b WHERE b.bucket = state.newest
            AND b.opened_at + every * interval '1 microsecond' <= clock_timestamp()) THEN
        IF EXISTS (SELECT FROM "public"."old_mark_buckets" b WHERE b.bucket <= state.newest + 1 - 64) THEN
            -- All slots are in use: the newest grows until the oldest is over.
            is_in_the_way := true;
        ELSE
            BEGIN
                slot := '"public"."old_marks_' || ((state.newest + 1) & 63) || '"';
                -- A transaction's changes are seen before other sessions are told of its tables,
                -- and its locks are held until these are told. So a slot is made in a transaction
                -- of its own, and written into when whoever made it has let go of this lock.
                LOCK TABLE ONLY "public"."old_marks" IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                IF to_regclass(slot) IS NULL THEN
                    EXECUTE 'CREATE TABLE ' || slot || ' (LIKE "public"."old_marks" INCLUDING ALL)';
                    EXECUTE 'ALTER TABLE "public"."old_marks" ATTACH PARTITION ' || slot || ' FOR VALUES IN ('
                        || ((state.newest + 1) & 63) || ')';
                    RETURN 'made';
                END IF;
                -- Of somebody who wrote by an old state after it was emptied.
                EXECUTE 'SELECT EXISTS (SELECT FROM ' || slot || ')' INTO has_rows;
                IF has_rows THEN
                    EXECUTE 'LOCK TABLE ONLY ' || slot || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
                    EXECUTE 'TRUNCATE ONLY ' || slot;
                END IF;
                INSERT INTO "public"."old_mark_buckets" (bucket) VALUES (state.newest + 1);
                UPDATE "public"."old_mark_state" s SET newest = s.newest + 1, is_double = true WHERE s.one = 1;
                RETURN 'begun';
            EXCEPTION WHEN lock_not_available THEN
                is_in_the_way := true;
            END;
        END IF;
    END IF;

    -- Not looked at any more, if nobody writes into it, either.
    UPDATE "public"."old_mark_state" s SET oldest = s.oldest + 1
        WHERE s.one = 1 AND s.oldest < s.newest - s.is_double::integer
        AND EXISTS (SELECT FROM "public"."old_mark_buckets" b WHERE b.bucket = s.oldest
            AND b.closed_at + keep * interval '1 microsecond' <= clock_timestamp());
    IF FOUND THEN
        RETURN 'left';
    END IF;

    SELECT b.bucket INTO over FROM "public"."old_mark_buckets" b WHERE b.bucket < state.oldest ORDER BY b.bucket LIMIT 1;
    IF FOUND THEN
        BEGIN
            slot := '"public"."old_marks_' || (over & 63) || '"';
            EXECUTE 'LOCK TABLE ONLY ' || slot || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
            EXECUTE 'TRUNCATE ONLY ' || slot;
            DELETE FROM "public"."old_mark_buckets" b WHERE b.bucket = over;
            RETURN 'emptied';
        EXCEPTION WHEN lock_not_available THEN
            is_in_the_way := true;
        END;
    END IF;
    RETURN CASE WHEN is_in_the_way THEN 'put off' ELSE 'nothing' END;
END $hapax$;
-- Messages that wait, or are dead letters. name is the consumer or the topic.
--
-- due_at is set for messages without a key: the time from which one may be taken, which a claim
-- puts off by its lease and a failure by its back-off. A message with a key is found through the
-- row of its key, and has none, unless it is `later`: then it takes its place behind the others of
-- its key at that time.
CREATE TABLE IF NOT EXISTS "public"."old_inbox" (
    position bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz,
    expires_at timestamptz,
    dead_at timestamptz,
    token bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    later boolean NOT NULL DEFAULT false,
    name text COLLATE "C" NOT NULL,
    key bytea,
    id bytea NOT NULL,
    headers text[],
    payload bytea NOT NULL,
    error text
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS "old_inbox_due" ON "public"."old_inbox" (name, due_at, position)
    WHERE due_at IS NOT NULL AND key IS NULL;
CREATE INDEX IF NOT EXISTS "old_inbox_key" ON "public"."old_inbox" (name, key, position)
    WHERE key IS NOT NULL AND dead_at IS NULL AND NOT later;
CREATE INDEX IF NOT EXISTS "old_inbox_later" ON "public"."old_inbox" (name, due_at) WHERE later;
CREATE INDEX IF NOT EXISTS "old_inbox_dead" ON "public"."old_inbox" (name, position) WHERE dead_at IS NOT NULL;
-- Keys that have messages. due_at is the time from which the first message of a key may be taken,
-- which a claim puts off by its lease and a failure by its back-off. So what cannot be taken is
-- never in front of what can.
--
-- Who enqueues makes the row, unless it is there, and holds the key's advisory lock until its
-- transaction ends. Who finds that a key has no messages any more removes the row only if it gets
-- that lock without waiting, and looks again then: nobody has seen a row that is then removed.
CREATE TABLE IF NOT EXISTS "public"."old_inbox_keys" (
    name text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    token bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS "old_inbox_keys_due" ON "public"."old_inbox_keys" (name, due_at);
-- Until when somebody looks for messages of a name (or of all, '') every few milliseconds: until
-- then whoever enqueues does not notify. NOTIFY lets transactions of the whole database commit one
-- after the other.
CREATE TABLE IF NOT EXISTS "public"."old_inbox_bell" (
    name text COLLATE "C" PRIMARY KEY,
    awake_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The number of a key's advisory lock. Two that got the same one by chance would wait for each
-- other, and nothing else.
CREATE OR REPLACE FUNCTION "public"."old_inbox_lock"(_name text, _key bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.hashtextextended(_name OPERATOR(pg_catalog.||) ' '::text OPERATOR(pg_catalog.||)
    pg_catalog.encode(_key, 'hex'::text), -4698079499675378849::bigint);

-- Tells those who wait, if nobody is awake; when the transaction commits, once, however often it is
-- said. One transaction at a time does: those that notify commit one after the other, and whoever
-- is woken looks for what the others commit, too.
CREATE OR REPLACE FUNCTION "public"."old_inbox_ring"(_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM "public"."old_inbox_bell" b WHERE b.name IN ('', _name) AND b.awake_until > clock_timestamp())
        AND pg_try_advisory_xact_lock(-5812516302811485526) THEN
        PERFORM pg_notify('hapax_619f4bec1de39c4a', '');
    END IF;
END $$;

-- Makes a key's row, unless it is there. The caller holds the key's lock, so it is not removed
-- until the caller's transaction ends. Where a transaction sees one state only, ON CONFLICT would
-- refuse a row that is newer than that.
CREATE OR REPLACE FUNCTION "public"."old_inbox_open"(_name text, _key bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        INSERT INTO "public"."old_inbox_keys" (name, key) VALUES (_name, _key) ON CONFLICT DO NOTHING;
    ELSE
        BEGIN
            INSERT INTO "public"."old_inbox_keys" (name, key) VALUES (_name, _key);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
END $$;

-- Stores messages of one name in their order. Headers are the text of an array. Times are seconds
-- since 1970. Positions of a key are given out while its lock is held, so they have the order in
-- which transactions commit.
CREATE OR REPLACE FUNCTION "public"."old_inbox_store"(
    _name text, _ids bytea[], _keys bytea[], _payloads bytea[], _headers text[], _due float8[], _expires float8[]
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _key bytea;
    _stored bigint;
BEGIN
    IF cardinality(array_remove(_keys, NULL)) = 0 THEN
        INSERT INTO "public"."old_inbox" (name, id, payload, headers, due_at, expires_at)
        SELECT _name, g.id, g.payload, g.headers::text[], coalesce(to_timestamp(g.due), clock_timestamp()),
            to_timestamp(g.expires)
        FROM unnest(_ids, _payloads, _headers, _due, _expires) g(id, payload, headers, due, expires)
        ON CONFLICT (name, id) DO NOTHING;
        GET DIAGNOSTICS _stored = ROW_COUNT;
        PERFORM "public"."old_inbox_ring"(_name);
        RETURN _stored;
    END IF;
    -- In one order, so that two that store messages of the same keys do not wait in a circle.
    FOR _key IN SELECT DISTINCT k FROM unnest(_keys) k WHERE k IS NOT NULL ORDER BY k LOOP
        PERFORM pg_advisory_xact_lock("public"."old_inbox_lock"(_name, _key));
    END LOOP;
    WITH given AS (
        SELECT g.id, g.key, g.payload, g.headers::text[] AS headers,
            to_timestamp(g.due) AS due_at, to_timestamp(g.expires) AS expires_at, g.n
        FROM unnest(_ids, _keys, _payloads, _headers, _due, _expires) WITH ORDINALITY
            AS g(id, key, payload, headers, due, expires, n)
    ), stored AS (
        INSERT INTO "public"."old_inbox" (name, id, key, payload, headers, due_at, expires_at, later)
        SELECT _name, g.id, g.key, g.payload, g.headers,
            CASE WHEN g.key IS NULL THEN coalesce(g.due_at, clock_timestamp()) ELSE g.due_at END,
            g.expires_at, g.key IS NOT NULL AND g.due_at IS NOT NULL
        FROM given g ORDER BY g.n
        ON CONFLICT (name, id) DO NOTHING
        RETURNING 1
    ) SELECT count(*) INTO _stored FROM stored;
    PERFORM "public"."old_inbox_open"(_name, u.k)
    FROM (SELECT DISTINCT g.k FROM unnest(_keys, _due) g(k, d) WHERE g.k IS NOT NULL AND g.d IS NULL ORDER BY g.k) u;
    PERFORM "public"."old_inbox_ring"(_name);
    RETURN _stored;
END $$;

-- The same for one message, of which there are most: each operator is qualified, since to set a
-- path and to call other functions costs as much as to store. Times are seconds since 1970. Its
-- position, or null if it was there.
CREATE OR REPLACE FUNCTION "public"."old_inbox_store_one"(
    _name text, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8
) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _position bigint;
    _is_awake boolean;
BEGIN
    IF _key IS NOT NULL THEN
        PERFORM pg_catalog.pg_advisory_xact_lock("public"."old_inbox_lock"(_name, _key));
    END IF;
    INSERT INTO "public"."old_inbox" (name, id, key, payload, headers, due_at, expires_at, later)
    VALUES (_name, _id, _key, _payload, _headers::pg_catalog.text[],
        CASE WHEN _key IS NULL AND _due IS NULL THEN pg_catalog.clock_timestamp()
            ELSE pg_catalog.to_timestamp(_due) END,
        pg_catalog.to_timestamp(_expires), _key IS NOT NULL AND _due IS NOT NULL)
    ON CONFLICT (name, id) DO NOTHING
    RETURNING position, EXISTS (
        SELECT FROM "public"."old_inbox_bell" b WHERE (b.name OPERATOR(pg_catalog.=) _name OR b.name OPERATOR(pg_catalog.=) '')
            AND b.awake_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
    ) INTO _position, _is_awake;
    IF _position IS NULL THEN
        RETURN NULL;
    END IF;
    IF _key IS NOT NULL AND _due IS NULL THEN
        IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' THEN
            INSERT INTO "public"."old_inbox_keys" (name, key) VALUES (_name, _key) ON CONFLICT DO NOTHING;
        ELSE
            PERFORM "public"."old_inbox_open"(_name, _key);
        END IF;
    END IF;
    IF NOT _is_awake AND pg_catalog.pg_try_advisory_xact_lock(-5812516302811485526) THEN
        PERFORM pg_catalog.pg_notify('hapax_619f4bec1de39c4a', '');
    END IF;
    RETURN _position;
END $$;

-- Lets messages that are due take their places behind the others of their keys, as if they were
-- enqueued now. Those whose key somebody else is enqueuing for are put off for a moment: nobody is
-- waited for.
CREATE OR REPLACE FUNCTION "public"."old_inbox_place"(_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _message record;
BEGIN
    FOR _message IN
        SELECT m.position, m.key FROM "public"."old_inbox" m WHERE m.later AND m.name = _name AND m.due_at <= clock_timestamp()
        ORDER BY m.due_at LIMIT 64 FOR UPDATE SKIP LOCKED
    LOOP
        IF pg_try_advisory_xact_lock("public"."old_inbox_lock"(_name, _message.key)) THEN
            UPDATE "public"."old_inbox" SET position = nextval(pg_get_serial_sequence('"public"."old_inbox"', 'position')), due_at = NULL, later = false
            WHERE position = _message.position;
            PERFORM "public"."old_inbox_open"(_name, _message.key);
        ELSE
            UPDATE "public"."old_inbox" SET due_at = clock_timestamp() + interval '100 milliseconds'
            WHERE position = _message.position;
        END IF;
    END LOOP;
END $$;

-- Gives back keys that the caller has locked: due after a while, or removed, if they have no
-- messages any more.
CREATE OR REPLACE FUNCTION "public"."old_inbox_give_back"(_rows tid[], _delays float8[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _empty tid[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT k.ctid AS at, g.delay, EXISTS (
            SELECT FROM "public"."old_inbox" m WHERE m.name = k.name AND m.key = k.key AND m.dead_at IS NULL AND NOT m.later OFFSET 0
        ) AS has_messages
        FROM unnest(_rows, _delays) g(at, delay) JOIN "public"."old_inbox_keys" k ON k.ctid = g.at
    ), kept AS (
        UPDATE "public"."old_inbox_keys" k SET token = 0, due_at = clock_timestamp() + g.delay * interval '1 microsecond'
        FROM given g WHERE g.has_messages AND k.ctid = g.at
    ) SELECT array_agg(g.at) INTO _empty FROM given g WHERE NOT g.has_messages;
    IF _empty IS NOT NULL THEN
        PERFORM "public"."old_inbox_close"(_empty);
    END IF;
END $$;

-- Removes keys that the caller has locked and that had no messages, unless somebody enqueues for
-- them now.
CREATE OR REPLACE FUNCTION "public"."old_inbox_close"(_rows tid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _ours tid[];
BEGIN
    SELECT array_agg(k.ctid) INTO _ours FROM "public"."old_inbox_keys" k
    WHERE k.ctid = ANY (_rows) AND pg_try_advisory_xact_lock("public"."old_inbox_lock"(k.name, k.key));
    -- A statement of its own, which sees whatever was committed before we got the locks.
    DELETE FROM "public"."old_inbox_keys" k WHERE k.ctid = ANY (_ours) AND NOT EXISTS (
        SELECT FROM "public"."old_inbox" m WHERE m.name = k.name AND m.key = k.key AND m.dead_at IS NULL AND NOT m.later OFFSET 0
    );
    -- Somebody enqueues, or has: looked at again soon.
    UPDATE "public"."old_inbox_keys" k SET token = 0, due_at = clock_timestamp() + interval '20 milliseconds' WHERE k.ctid = ANY (_rows);
END $$;

-- The first 64 names behind this one that have messages, in order, and which of them have something
-- due.
CREATE OR REPLACE FUNCTION "public"."old_inbox_names"(_after text) RETURNS TABLE (name text, is_due boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _name text := _after;
    _free record;
    _key record;
    _later record;
BEGIN
    FOR _seen IN 1..64 LOOP
        SELECT m.name, m.due_at INTO _free FROM "public"."old_inbox" m WHERE m.key IS NULL AND m.due_at IS NOT NULL
            AND m.name > _name ORDER BY m.name, m.due_at, m.position LIMIT 1;
        SELECT k.name, k.due_at INTO _key FROM "public"."old_inbox_keys" k WHERE k.name > _name ORDER BY k.name, k.due_at LIMIT 1;
        SELECT m.name, m.due_at INTO _later FROM "public"."old_inbox" m WHERE m.later AND m.name > _name
            ORDER BY m.name, m.due_at LIMIT 1;
        _name := least(_free.name COLLATE "C", _key.name COLLATE "C", _later.name COLLATE "C");
        EXIT WHEN _name IS NULL;
        name := _name;
        is_due := coalesce(_free.name = _name AND _free.due_at <= _now, false)
            OR coalesce(_key.name = _name AND _key.due_at <= _now, false)
            OR coalesce(_later.name = _name AND _later.due_at <= _now, false);
        RETURN NEXT;
    END LOOP;
END $$;

-- Claims messages of these names: of each its share of those that are wanted, and of the bytes.
-- With and without keys, those first that have been due for longer.
--
-- _since: for each name, from which time on (in microseconds since 1970) due messages are looked
-- for. The column since says where the first one was: for a while the caller need not look in front
-- of that, where there may be millions of rows that are gone and cannot be removed yet, as long as
-- some transaction may see them. _since_positions: of those that have been due since then, and have
-- no key, the first.
CREATE OR REPLACE FUNCTION "public"."old_inbox_claim"(
    _names text[], _since bigint[], _since_positions bigint[], _first bigint, _behind bigint, _bytes bigint,
    _lease float8, _token bigint
) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer,
    enqueued_at bigint, is_expired boolean, since bigint, since_position bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _free timestamptz;
    _keyed timestamptz;
    _runs bigint;
    _room bigint;
    _left bigint;
    _budget bigint;
    _to_come bigint := cardinality(_names);
    _name text;
    _from timestamptz;
    _from_position bigint;
    _rows tid[];
    _keys bytea[];
    _positions bigint[];
    _empty tid[];
    _size bigint;
BEGIN
    FOR _name, _from, _from_position IN
        SELECT g.name, CASE WHEN g.since = 0 THEN '-infinity'
            ELSE '1970-01-01 00:00:00+00'::timestamptz + g.since * interval '1 microsecond' END, g.position
        FROM unnest(_names, _since, _since_positions) g(name, since, position)
    LOOP
        _room := greatest(ceil(_first::float8 / _to_come)::bigint, 1);
        _budget := greatest(_bytes / _to_come, 0);
        _runs := 0;
        _left := _budget;
        IF EXISTS (SELECT FROM "public"."old_inbox" m WHERE m.later AND m.name = _name AND m.due_at <= _now) THEN
            PERFORM "public"."old_inbox_place"(_name);
        END IF;
        SELECT m.due_at, m.position INTO _free, since_position FROM "public"."old_inbox" m WHERE m.name = _name AND m.key IS NULL
            AND m.due_at <= _now AND (m.due_at, m.position) >= (_from, _from_position)
            ORDER BY m.name, m.due_at, m.position LIMIT 1;
        SELECT k.due_at INTO _keyed FROM "public"."old_inbox_keys" k WHERE k.name = _name AND k.due_at <= clock_timestamp()
            AND k.due_at >= _from ORDER BY k.name, k.due_at LIMIT 1;
        since := floor(extract(epoch FROM greatest(least(_free, _keyed), '1970-01-01 00:00:00+00')) * 1000000)::bigint;
        since_position := CASE WHEN _free <= _keyed OR _keyed IS NULL THEN coalesce(since_position, 0) ELSE 0 END;
        FOR _turn IN 1..2 LOOP
            EXIT WHEN _runs >= _room;
            IF (_turn = 1) = (_keyed IS NULL OR coalesce(_free <= _keyed, false)) THEN
                CONTINUE WHEN _free IS NULL;
                SELECT array_agg(s.at), sum(s.size) INTO _rows, _size FROM (
                    SELECT d.at, d.size, sum(d.size) OVER w AS bytes, row_number() OVER w AS n FROM (
                        SELECT m.ctid AS at, m.due_at, m.position, octet_length(m.payload) AS size FROM "public"."old_inbox" m
                        WHERE m.name = _name AND m.key IS NULL AND m.due_at <= _now
                            AND (m.due_at, m.position) >= (_from, _from_position)
                        ORDER BY m.due_at, m.position LIMIT _room - _runs FOR UPDATE SKIP LOCKED
                    ) d WINDOW w AS (ORDER BY d.due_at, d.position)
                ) s WHERE s.bytes <= _left OR (_runs = 0 AND s.n = 1);
                CONTINUE WHEN _rows IS NULL;
                RETURN QUERY UPDATE "public"."old_inbox" m SET token = _token, due_at = _now + _lease * interval '1 microsecond'
                WHERE m.ctid = ANY (_rows) RETURNING m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
                    (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, coalesce(m.expires_at <= _now, false), since,
                    since_position;
                _runs := _runs + cardinality(_rows);
                _left := _left - _size;
            ELSE
                CONTINUE WHEN _keyed IS NULL;
                SELECT array_agg(d.at), array_agg(d.key) INTO _rows, _keys FROM (
                    SELECT k.ctid AS at, k.key FROM "public"."old_inbox_keys" k
                    WHERE k.name = _name AND k.due_at <= clock_timestamp() AND k.due_at >= _from
                    ORDER BY k.due_at LIMIT _room - _runs FOR UPDATE SKIP LOCKED
                ) d;
                CONTINUE WHEN _rows IS NULL;
                -- A statement of its own, which sees what whoever had these keys before has left.
                -- Firsts of keys before seconds, until there is no room.
                WITH found AS MATERIALIZED (
                    SELECT h.at, h.n, f.position, f.place, f.size
                    FROM unnest(_rows, _keys) WITH ORDINALITY h(at, key, n) LEFT JOIN LATERAL (
                        SELECT m.position, row_number() OVER (ORDER BY m.position) AS place,
                            octet_length(m.payload) AS size
                        FROM "public"."old_inbox" m WHERE m.name = _name AND m.key = h.key AND m.dead_at IS NULL AND NOT m.later
                        ORDER BY m.position LIMIT _behind + 1
                    ) f ON true
                ), summed AS (
                    SELECT f.*, sum(f.size) OVER w AS bytes, row_number() OVER w AS nth FROM found f
                    WINDOW w AS (ORDER BY f.place, f.n)
                ), taken AS (
                    SELECT s.* FROM summed s
                    WHERE s.position IS NOT NULL AND (s.bytes <= _left OR (_runs = 0 AND s.nth = 1))
                ) SELECT array_agg(t.position ORDER BY t.n, t.place), array_agg(t.at) FILTER (WHERE t.place = 1),
                    coalesce(sum(t.size), 0), (SELECT array_agg(f.at) FROM found f WHERE f.position IS NULL)
                INTO _positions, _rows, _size, _empty FROM taken t;
                IF _empty IS NOT NULL THEN
                    PERFORM "public"."old_inbox_close"(_empty);
                END IF;
                CONTINUE WHEN _rows IS NULL;
                UPDATE "public"."old_inbox_keys" k SET token = _token, due_at = _now + _lease * interval '1 microsecond'
                WHERE k.ctid = ANY (_rows);
                RETURN QUERY SELECT m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
                    (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, coalesce(m.expires_at <= _now, false), since,
                    since_position
                FROM unnest(_positions) WITH ORDINALITY p(position, n) JOIN "public"."old_inbox" m ON m.position = p.position
                ORDER BY p.n;
                _runs := _runs + cardinality(_rows);
                _left := _left - _size;
            END IF;
        END LOOP;
        _first := _first - _runs;
        _bytes := _bytes - (_budget - _left);
        _to_come := _to_come - 1;
    END LOOP;
END $$;

-- Counts an attempt that begins, and makes its lease a whole one. Null, if somebody else has the
-- message.
CREATE OR REPLACE FUNCTION "public"."old_inbox_begin"(_name text, _key bytea, _position bigint, _token bigint, _lease float8)
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _due timestamptz := clock_timestamp() + _lease * interval '1 microsecond';
    _attempts integer;
BEGIN
    IF _key IS NOT NULL THEN
        UPDATE "public"."old_inbox_keys" k SET due_at = _due WHERE k.name = _name AND k.key = _key AND k.token = _token;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- Whoever has its row is still at work on it, though its lease is over.
    PERFORM FROM "public"."old_inbox" m WHERE m.position = _position AND (_key IS NOT NULL OR m.token = _token) AND m.dead_at IS NULL
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE "public"."old_inbox" SET attempts = attempts + 1, token = _token, due_at = CASE WHEN key IS NULL THEN _due END
    WHERE position = _position RETURNING attempts INTO _attempts;
    RETURN _attempts;
END $$;

-- Says what came of claims, as far as they still hold. _done was done: it is removed, whoever has a
-- claim on it now. _positions were tried and failed, or (dead) are given up. _names, _keys and
-- _lanes (their tokens) are keys to give back. Returns the positions of messages whose rows
-- somebody has locked: to be said again, with their keys, which are kept until then.
--
-- Messages are locked before keys, as claims do, and what is locked is not waited for.
CREATE OR REPLACE FUNCTION "public"."old_inbox_settle"(
    _done bigint[],
    _positions bigint[], _tokens bigint[], _attempts bigint[], _errors text[], _dead bigint[], _delays float8[],
    _names text[], _keys bytea[], _lanes bigint[], _lane_delays float8[]
) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    _held bigint[];
    _locked bigint[];
    _rows tid[];
    _put_off float8[];
BEGIN
    IF cardinality(_done) > 0 THEN
        DELETE FROM "public"."old_inbox" m WHERE m.position = ANY (_done);
    END IF;
    IF cardinality(_positions) > 0 THEN
        SELECT array_agg(h.position) INTO _held FROM (
            SELECT m.position FROM "public"."old_inbox" m WHERE m.position = ANY (_positions) ORDER BY m.position FOR UPDATE SKIP LOCKED
        ) h;
        UPDATE "public"."old_inbox" m SET token = 0, attempts = u.attempts, error = coalesce(u.error, m.error),
            dead_at = CASE WHEN u.dead = 1 THEN clock_timestamp() END,
            due_at = CASE WHEN m.key IS NULL AND u.dead = 0
                THEN clock_timestamp() + u.delay * interval '1 microsecond' END
        FROM unnest(_positions, _tokens, _attempts, _errors, _dead, _delays) u(position, token, attempts, error, dead, delay)
        WHERE m.position = u.position AND m.position = ANY (_held) AND m.dead_at IS NULL AND (m.token = u.token
            OR EXISTS (SELECT FROM "public"."old_inbox_keys" k WHERE k.name = m.name AND k.key = m.key AND k.token = u.token));
        SELECT array_agg(m.position) INTO _locked FROM "public"."old_inbox" m
            WHERE m.position = ANY (_positions) AND m.position <> ALL (coalesce(_held, ARRAY[]::bigint[]));
        RETURN QUERY SELECT unnest(_locked);
    END IF;
    IF cardinality(_names) > 0 THEN
        SELECT array_agg(h.at), array_agg(h.delay) INTO _rows, _put_off FROM (
            SELECT k.ctid AS at, u.delay FROM unnest(_names, _keys, _lanes, _lane_delays) u(name, key, token, delay)
            JOIN "public"."old_inbox_keys" k ON k.name = u.name AND k.key = u.key AND k.token = u.token
            WHERE _locked IS NULL OR NOT EXISTS (
                SELECT FROM "public"."old_inbox" m WHERE m.position = ANY (_locked) AND m.name = u.name AND m.key = u.key)
            ORDER BY k.name, k.key FOR UPDATE OF k
        ) h;
        PERFORM "public"."old_inbox_give_back"(_rows, _put_off);
    END IF;
END $$;

-- Somebody looks for messages of this name (or of all, '') every few milliseconds, for so many
-- milliseconds.
CREATE OR REPLACE FUNCTION "public"."old_inbox_awake"(_name text, _ms float8) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO "public"."old_inbox_bell" AS b VALUES (_name, clock_timestamp() + _ms * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET awake_until = greatest(b.awake_until, excluded.awake_until);
END $$;

-- Makes dead letters the last of their keys: those at these positions, or the oldest so many of a
-- name (or of all). How many. Each takes its key's lock, as whoever enqueues does.
CREATE OR REPLACE FUNCTION "public"."old_inbox_requeue"(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _letter record;
BEGIN
    changed := 0;
    FOR _letter IN
        SELECT d.* FROM (
            SELECT m.position, m.name, m.key FROM "public"."old_inbox" m WHERE m.dead_at IS NOT NULL
                AND (_positions IS NULL OR m.position = ANY (_positions)) AND (_name IS NULL OR m.name = _name)
                AND (_age IS NULL OR m.dead_at < clock_timestamp() - _age * interval '1 microsecond')
            ORDER BY m.position LIMIT _limit
        ) d ORDER BY d.name, d.key, d.position
    LOOP
        IF _letter.key IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock("public"."old_inbox_lock"(_letter.name, _letter.key));
        END IF;
        UPDATE "public"."old_inbox" SET dead_at = NULL, attempts = 0, token = 0, expires_at = NULL,
            position = nextval(pg_get_serial_sequence('"public"."old_inbox"', 'position')),
            due_at = CASE WHEN key IS NULL THEN clock_timestamp() END
        WHERE position = _letter.position AND dead_at IS NOT NULL;
        IF FOUND THEN
            changed := changed + 1;
            IF _letter.key IS NOT NULL THEN
                PERFORM "public"."old_inbox_open"(_letter.name, _letter.key);
            END IF;
            PERFORM "public"."old_inbox_ring"(_letter.name);
        END IF;
    END LOOP;
END $$;

-- Dead letters of a name (or of all) behind a position, oldest first. Times are microseconds since
-- 1970.
CREATE OR REPLACE FUNCTION "public"."old_inbox_letters"(_name text, _behind bigint, _limit bigint) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer, error text,
    enqueued_at bigint, died_at bigint
)
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts, m.error,
        (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, (extract(epoch FROM m.dead_at) * 1000000)::bigint
    FROM "public"."old_inbox" m WHERE m.dead_at IS NOT NULL AND m.position > _behind AND (_name IS NULL OR m.name = _name)
    ORDER BY m.position LIMIT _limit
$$;

-- Removes dead letters: those at these positions, or the oldest so many of a name (or of all) that
-- died so long ago. How many.
CREATE OR REPLACE FUNCTION "public"."old_inbox_discard"(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM "public"."old_inbox" WHERE position IN (
        SELECT m.position FROM "public"."old_inbox" m WHERE m.dead_at IS NOT NULL
            AND (_positions IS NULL OR m.position = ANY (_positions)) AND (_name IS NULL OR m.name = _name)
            AND (_age IS NULL OR m.dead_at < clock_timestamp() - _age * interval '1 microsecond')
        ORDER BY m.position LIMIT _limit
    );
    GET DIAGNOSTICS changed = ROW_COUNT;
END $$;

-- What there is of a name (or of all). waiting: messages that are not dead; runs_due: keys and
-- messages without one that may be taken now; each counted up to a limit. due_for: for how many
-- seconds the first of these has been due. oldest: how many seconds ago the first message that
-- waits was stored.
CREATE OR REPLACE FUNCTION "public"."old_inbox_figures"(
    _name text, _limit bigint,
    OUT waiting bigint, OUT runs_due bigint, OUT dead bigint, OUT due_for float8, OUT oldest float8
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _first timestamptz;
BEGIN
    SELECT count(*) INTO waiting FROM (
        SELECT FROM "public"."old_inbox" m WHERE m.dead_at IS NULL AND (_name IS NULL OR m.name = _name) LIMIT _limit) w;
    SELECT count(*) INTO dead FROM (
        SELECT FROM "public"."old_inbox" m WHERE m.dead_at IS NOT NULL AND (_name IS NULL OR m.name = _name) LIMIT _limit) d;
    SELECT count(*) INTO runs_due FROM (
        SELECT FROM "public"."old_inbox" m WHERE m.key IS NULL AND m.due_at <= _now AND (_name IS NULL OR m.name = _name)
        UNION ALL SELECT FROM "public"."old_inbox_keys" k WHERE k.due_at <= _now AND (_name IS NULL OR k.name = _name) LIMIT _limit) r;
    SELECT least(
        (SELECT min(m.due_at) FROM "public"."old_inbox" m WHERE m.key IS NULL AND m.due_at IS NOT NULL AND (_name IS NULL OR m.name = _name)),
        (SELECT min(k.due_at) FROM "public"."old_inbox_keys" k WHERE _name IS NULL OR k.name = _name)) INTO _first;
    due_for := CASE WHEN _first <= _now THEN extract(epoch FROM _now - _first) ELSE 0 END;
    SELECT extract(epoch FROM _now - m.enqueued_at) INTO oldest FROM "public"."old_inbox" m
        WHERE m.dead_at IS NULL AND (_name IS NULL OR m.name = _name) ORDER BY m.position LIMIT 1;
    oldest := coalesce(oldest, 0);
END $$;
-- Messages that wait, or are dead letters. name is the consumer or the topic.
--
-- due_at is set for messages without a key: the time from which one may be taken, which a claim
-- puts off by its lease and a failure by its back-off. A message with a key is found through the
-- row of its key, and has none, unless it is `later`: then it takes its place behind the others of
-- its key at that time.
CREATE TABLE IF NOT EXISTS "public"."old_outbox" (
    position bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz,
    expires_at timestamptz,
    dead_at timestamptz,
    token bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    later boolean NOT NULL DEFAULT false,
    name text COLLATE "C" NOT NULL,
    key bytea,
    id bytea NOT NULL,
    headers text[],
    payload bytea NOT NULL,
    error text
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS "old_outbox_due" ON "public"."old_outbox" (name, due_at, position)
    WHERE due_at IS NOT NULL AND key IS NULL;
CREATE INDEX IF NOT EXISTS "old_outbox_key" ON "public"."old_outbox" (name, key, position)
    WHERE key IS NOT NULL AND dead_at IS NULL AND NOT later;
CREATE INDEX IF NOT EXISTS "old_outbox_later" ON "public"."old_outbox" (name, due_at) WHERE later;
CREATE INDEX IF NOT EXISTS "old_outbox_dead" ON "public"."old_outbox" (name, position) WHERE dead_at IS NOT NULL;
-- Keys that have messages. due_at is the time from which the first message of a key may be taken,
-- which a claim puts off by its lease and a failure by its back-off. So what cannot be taken is
-- never in front of what can.
--
-- Who enqueues makes the row, unless it is there, and holds the key's advisory lock until its
-- transaction ends. Who finds that a key has no messages any more removes the row only if it gets
-- that lock without waiting, and looks again then: nobody has seen a row that is then removed.
CREATE TABLE IF NOT EXISTS "public"."old_outbox_keys" (
    name text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    token bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS "old_outbox_keys_due" ON "public"."old_outbox_keys" (name, due_at);
-- Until when somebody looks for messages of a name (or of all, '') every few milliseconds: until
-- then whoever enqueues does not notify. NOTIFY lets transactions of the whole database commit one
-- after the other.
CREATE TABLE IF NOT EXISTS "public"."old_outbox_bell" (
    name text COLLATE "C" PRIMARY KEY,
    awake_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The number of a key's advisory lock. Two that got the same one by chance would wait for each
-- other, and nothing else.
CREATE OR REPLACE FUNCTION "public"."old_outbox_lock"(_name text, _key bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.hashtextextended(_name OPERATOR(pg_catalog.||) ' '::text OPERATOR(pg_catalog.||)
    pg_catalog.encode(_key, 'hex'::text), 2393909699118659268::bigint);

-- Tells those who wait, if nobody is awake; when the transaction commits, once, however often it is
-- said. One transaction at a time does: those that notify commit one after the other, and whoever
-- is woken looks for what the others commit, too.
CREATE OR REPLACE FUNCTION "public"."old_outbox_ring"(_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM "public"."old_outbox_bell" b WHERE b.name IN ('', _name) AND b.awake_until > clock_timestamp())
        AND pg_try_advisory_xact_lock(4781597502835014531) THEN
        PERFORM pg_notify('hapax_9988352cdaeca8a7', '');
    END IF;
END $$;

-- Makes a key's row, unless it is there. The caller holds the key's lock, so it is not removed
-- until the caller's transaction ends. Where a transaction sees one state only, ON CONFLICT would
-- refuse a row that is newer than that.
CREATE OR REPLACE FUNCTION "public"."old_outbox_open"(_name text, _key bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        INSERT INTO "public"."old_outbox_keys" (name, key) VALUES (_name, _key) ON CONFLICT DO NOTHING;
    ELSE
        BEGIN
            INSERT INTO "public"."old_outbox_keys" (name, key) VALUES (_name, _key);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
END $$;

-- Stores messages of one name in their order. Headers are the text of an array. Times are seconds
-- since 1970. Positions of a key are given out while its lock is held, so they have the order in
-- which transactions commit.
CREATE OR REPLACE FUNCTION "public"."old_outbox_store"(
    _name text, _ids bytea[], _keys bytea[], _payloads bytea[], _headers text[], _due float8[], _expires float8[]
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _key bytea;
    _stored bigint;
BEGIN
    IF cardinality(array_remove(_keys, NULL)) = 0 THEN
        INSERT INTO "public"."old_outbox" (name, id, payload, headers, due_at, expires_at)
        SELECT _name, g.id, g.payload, g.headers::text[], coalesce(to_timestamp(g.due), clock_timestamp()),
            to_timestamp(g.expires)
        FROM unnest(_ids, _payloads, _headers, _due, _expires) g(id, payload, headers, due, expires)
        ;
        GET DIAGNOSTICS _stored = ROW_COUNT;
        PERFORM "public"."old_outbox_ring"(_name);
        RETURN _stored;
    END IF;
    -- In one order, so that two that store messages of the same keys do not wait in a circle.
    FOR _key IN SELECT DISTINCT k FROM unnest(_keys) k WHERE k IS NOT NULL ORDER BY k LOOP
        PERFORM pg_advisory_xact_lock("public"."old_outbox_lock"(_name, _key));
    END LOOP;
    WITH given AS (
        SELECT g.id, g.key, g.payload, g.headers::text[] AS headers,
            to_timestamp(g.due) AS due_at, to_timestamp(g.expires) AS expires_at, g.n
        FROM unnest(_ids, _keys, _payloads, _headers, _due, _expires) WITH ORDINALITY
            AS g(id, key, payload, headers, due, expires, n)
    ), stored AS (
        INSERT INTO "public"."old_outbox" (name, id, key, payload, headers, due_at, expires_at, later)
        SELECT _name, g.id, g.key, g.payload, g.headers,
            CASE WHEN g.key IS NULL THEN coalesce(g.due_at, clock_timestamp()) ELSE g.due_at END,
            g.expires_at, g.key IS NOT NULL AND g.due_at IS NOT NULL
        FROM given g ORDER BY g.n
        
        RETURNING 1
    ) SELECT count(*) INTO _stored FROM stored;
    PERFORM "public"."old_outbox_open"(_name, u.k)
    FROM (SELECT DISTINCT g.k FROM unnest(_keys, _due) g(k, d) WHERE g.k IS NOT NULL AND g.d IS NULL ORDER BY g.k) u;
    PERFORM "public"."old_outbox_ring"(_name);
    RETURN _stored;
END $$;

-- The same for one message, of which there are most: each operator is qualified, since to set a
-- path and to call other functions costs as much as to store. Times are seconds since 1970. Its
-- position, or null if it was there.
CREATE OR REPLACE FUNCTION "public"."old_outbox_store_one"(
    _name text, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8
) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _position bigint;
    _is_awake boolean;
BEGIN
    IF _key IS NOT NULL THEN
        PERFORM pg_catalog.pg_advisory_xact_lock("public"."old_outbox_lock"(_name, _key));
    END IF;
    INSERT INTO "public"."old_outbox" (name, id, key, payload, headers, due_at, expires_at, later)
    VALUES (_name, _id, _key, _payload, _headers::pg_catalog.text[],
        CASE WHEN _key IS NULL AND _due IS NULL THEN pg_catalog.clock_timestamp()
            ELSE pg_catalog.to_timestamp(_due) END,
        pg_catalog.to_timestamp(_expires), _key IS NOT NULL AND _due IS NOT NULL)
    
    RETURNING position, EXISTS (
        SELECT FROM "public"."old_outbox_bell" b WHERE (b.name OPERATOR(pg_catalog.=) _name OR b.name OPERATOR(pg_catalog.=) '')
            AND b.awake_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
    ) INTO _position, _is_awake;
    IF _position IS NULL THEN
        RETURN NULL;
    END IF;
    IF _key IS NOT NULL AND _due IS NULL THEN
        IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' THEN
            INSERT INTO "public"."old_outbox_keys" (name, key) VALUES (_name, _key) ON CONFLICT DO NOTHING;
        ELSE
            PERFORM "public"."old_outbox_open"(_name, _key);
        END IF;
    END IF;
    IF NOT _is_awake AND pg_catalog.pg_try_advisory_xact_lock(4781597502835014531) THEN
        PERFORM pg_catalog.pg_notify('hapax_9988352cdaeca8a7', '');
    END IF;
    RETURN _position;
END $$;

-- Lets messages that are due take their places behind the others of their keys, as if they were
-- enqueued now. Those whose key somebody else is enqueuing for are put off for a moment: nobody is
-- waited for.
CREATE OR REPLACE FUNCTION "public"."old_outbox_place"(_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _message record;
BEGIN
    FOR _message IN
        SELECT m.position, m.key FROM "public"."old_outbox" m WHERE m.later AND m.name = _name AND m.due_at <= clock_timestamp()
        ORDER BY m.due_at LIMIT 64 FOR UPDATE SKIP LOCKED
    LOOP
        IF pg_try_advisory_xact_lock("public"."old_outbox_lock"(_name, _message.key)) THEN
            UPDATE "public"."old_outbox" SET position = nextval(pg_get_serial_sequence('"public"."old_outbox"', 'position')), due_at = NULL, later = false
            WHERE position = _message.position;
            PERFORM "public"."old_outbox_open"(_name, _message.key);
        ELSE
            UPDATE "public"."old_outbox" SET due_at = clock_timestamp() + interval '100 milliseconds'
            WHERE position = _message.position;
        END IF;
    END LOOP;
END $$;

-- Gives back keys that the caller has locked: due after a while, or removed, if they have no
-- messages any more.
CREATE OR REPLACE FUNCTION "public"."old_outbox_give_back"(_rows tid[], _delays float8[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _empty tid[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT k.ctid AS at, g.delay, EXISTS (
            SELECT FROM "public"."old_outbox" m WHERE m.name = k.name AND m.key = k.key AND m.dead_at IS NULL AND NOT m.later OFFSET 0
        ) AS has_messages
        FROM unnest(_rows, _delays) g(at, delay) JOIN "public"."old_outbox_keys" k ON k.ctid = g.at
    ), kept AS (
        UPDATE "public"."old_outbox_keys" k SET token = 0, due_at = clock_timestamp() + g.delay * interval '1 microsecond'
        FROM given g WHERE g.has_messages AND k.ctid = g.at
    ) SELECT array_agg(g.at) INTO _empty FROM given g WHERE NOT g.has_messages;
    IF _empty IS NOT NULL THEN
        PERFORM "public"."old_outbox_close"(_empty);
    END IF;
END $$;

-- Removes keys that the caller has locked and that had no messages, unless somebody enqueues for
-- them now.
CREATE OR REPLACE FUNCTION "public"."old_outbox_close"(_rows tid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _ours tid[];
BEGIN
    SELECT array_agg(k.ctid) INTO _ours FROM "public"."old_outbox_keys" k
    WHERE k.ctid = ANY (_rows) AND pg_try_advisory_xact_lock("public"."old_outbox_lock"(k.name, k.key));
    -- A statement of its own, which sees whatever was committed before we got the locks.
    DELETE FROM "public"."old_outbox_keys" k WHERE k.ctid = ANY (_ours) AND NOT EXISTS (
        SELECT FROM "public"."old_outbox" m WHERE m.name = k.name AND m.key = k.key AND m.dead_at IS NULL AND NOT m.later OFFSET 0
    );
    -- Somebody enqueues, or has: looked at again soon.
    UPDATE "public"."old_outbox_keys" k SET token = 0, due_at = clock_timestamp() + interval '20 milliseconds' WHERE k.ctid = ANY (_rows);
END $$;

-- The first 64 names behind this one that have messages, in order, and which of them have something
-- due.
CREATE OR REPLACE FUNCTION "public"."old_outbox_names"(_after text) RETURNS TABLE (name text, is_due boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _name text := _after;
    _free record;
    _key record;
    _later record;
BEGIN
    FOR _seen IN 1..64 LOOP
        SELECT m.name, m.due_at INTO _free FROM "public"."old_outbox" m WHERE m.key IS NULL AND m.due_at IS NOT NULL
            AND m.name > _name ORDER BY m.name, m.due_at, m.position LIMIT 1;
        SELECT k.name, k.due_at INTO _key FROM "public"."old_outbox_keys" k WHERE k.name > _name ORDER BY k.name, k.due_at LIMIT 1;
        SELECT m.name, m.due_at INTO _later FROM "public"."old_outbox" m WHERE m.later AND m.name > _name
            ORDER BY m.name, m.due_at LIMIT 1;
        _name := least(_free.name COLLATE "C", _key.name COLLATE "C", _later.name COLLATE "C");
        EXIT WHEN _name IS NULL;
        name := _name;
        is_due := coalesce(_free.name = _name AND _free.due_at <= _now, false)
            OR coalesce(_key.name = _name AND _key.due_at <= _now, false)
            OR coalesce(_later.name = _name AND _later.due_at <= _now, false);
        RETURN NEXT;
    END LOOP;
END $$;

-- Claims messages of these names: of each its share of those that are wanted, and of the bytes.
-- With and without keys, those first that have been due for longer.
--
-- _since: for each name, from which time on (in microseconds since 1970) due messages are looked
-- for. The column since says where the first one was: for a while the caller need not look in front
-- of that, where there may be millions of rows that are gone and cannot be removed yet, as long as
-- some transaction may see them. _since_positions: of those that have been due since then, and have
-- no key, the first.
CREATE OR REPLACE FUNCTION "public"."old_outbox_claim"(
    _names text[], _since bigint[], _since_positions bigint[], _first bigint, _behind bigint, _bytes bigint,
    _lease float8, _token bigint
) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer,
    enqueued_at bigint, is_expired boolean, since bigint, since_position bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off ROWS 1000 AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _free timestamptz;
    _keyed timestamptz;
    _runs bigint;
    _room bigint;
    _left bigint;
    _budget bigint;
    _to_come bigint := cardinality(_names);
    _name text;
    _from timestamptz;
    _from_position bigint;
    _rows tid[];
    _keys bytea[];
    _positions bigint[];
    _empty tid[];
    _size bigint;
BEGIN
    FOR _name, _from, _from_position IN
        SELECT g.name, CASE WHEN g.since = 0 THEN '-infinity'
            ELSE '1970-01-01 00:00:00+00'::timestamptz + g.since * interval '1 microsecond' END, g.position
        FROM unnest(_names, _since, _since_positions) g(name, since, position)
    LOOP
        _room := greatest(ceil(_first::float8 / _to_come)::bigint, 1);
        _budget := greatest(_bytes / _to_come, 0);
        _runs := 0;
        _left := _budget;
        IF EXISTS (SELECT FROM "public"."old_outbox" m WHERE m.later AND m.name = _name AND m.due_at <= _now) THEN
            PERFORM "public"."old_outbox_place"(_name);
        END IF;
        SELECT m.due_at, m.position INTO _free, since_position FROM "public"."old_outbox" m WHERE m.name = _name AND m.key IS NULL
            AND m.due_at <= _now AND (m.due_at, m.position) >= (_from, _from_position)
            ORDER BY m.name, m.due_at, m.position LIMIT 1;
        SELECT k.due_at INTO _keyed FROM "public"."old_outbox_keys" k WHERE k.name = _name AND k.due_at <= clock_timestamp()
            AND k.due_at >= _from ORDER BY k.name, k.due_at LIMIT 1;
        since := floor(extract(epoch FROM greatest(least(_free, _keyed), '1970-01-01 00:00:00+00')) * 1000000)::bigint;
        since_position := CASE WHEN _free <= _keyed OR _keyed IS NULL THEN coalesce(since_position, 0) ELSE 0 END;
        FOR _turn IN 1..2 LOOP
            EXIT WHEN _runs >= _room;
            IF (_turn = 1) = (_keyed IS NULL OR coalesce(_free <= _keyed, false)) THEN
                CONTINUE WHEN _free IS NULL;
                SELECT array_agg(s.at), sum(s.size) INTO _rows, _size FROM (
                    SELECT d.at, d.size, sum(d.size) OVER w AS bytes, row_number() OVER w AS n FROM (
                        SELECT m.ctid AS at, m.due_at, m.position, octet_length(m.payload) AS size FROM "public"."old_outbox" m
                        WHERE m.name = _name AND m.key IS NULL AND m.due_at <= _now
                            AND (m.due_at, m.position) >= (_from, _from_position)
                        ORDER BY m.due_at, m.position LIMIT _room - _runs FOR UPDATE SKIP LOCKED
                    ) d WINDOW w AS (ORDER BY d.due_at, d.position)
                ) s WHERE s.bytes <= _left OR (_runs = 0 AND s.n = 1);
                CONTINUE WHEN _rows IS NULL;
                RETURN QUERY UPDATE "public"."old_outbox" m SET token = _token, due_at = _now + _lease * interval '1 microsecond'
                WHERE m.ctid = ANY (_rows) RETURNING m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
                    (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, coalesce(m.expires_at <= _now, false), since,
                    since_position;
                _runs := _runs + cardinality(_rows);
                _left := _left - _size;
            ELSE
                CONTINUE WHEN _keyed IS NULL;
                SELECT array_agg(d.at), array_agg(d.key) INTO _rows, _keys FROM (
                    SELECT k.ctid AS at, k.key FROM "public"."old_outbox_keys" k
                    WHERE k.name = _name AND k.due_at <= clock_timestamp() AND k.due_at >= _from
                    ORDER BY k.due_at LIMIT _room - _runs FOR UPDATE SKIP LOCKED
                ) d;
                CONTINUE WHEN _rows IS NULL;
                -- A statement of its own, which sees what whoever had these keys before has left.
                -- Firsts of keys before seconds, until there is no room.
                WITH found AS MATERIALIZED (
                    SELECT h.at, h.n, f.position, f.place, f.size
                    FROM unnest(_rows, _keys) WITH ORDINALITY h(at, key, n) LEFT JOIN LATERAL (
                        SELECT m.position, row_number() OVER (ORDER BY m.position) AS place,
                            octet_length(m.payload) AS size
                        FROM "public"."old_outbox" m WHERE m.name = _name AND m.key = h.key AND m.dead_at IS NULL AND NOT m.later
                        ORDER BY m.position LIMIT _behind + 1
                    ) f ON true
                ), summed AS (
                    SELECT f.*, sum(f.size) OVER w AS bytes, row_number() OVER w AS nth FROM found f
                    WINDOW w AS (ORDER BY f.place, f.n)
                ), taken AS (
                    SELECT s.* FROM summed s
                    WHERE s.position IS NOT NULL AND (s.bytes <= _left OR (_runs = 0 AND s.nth = 1))
                ) SELECT array_agg(t.position ORDER BY t.n, t.place), array_agg(t.at) FILTER (WHERE t.place = 1),
                    coalesce(sum(t.size), 0), (SELECT array_agg(f.at) FROM found f WHERE f.position IS NULL)
                INTO _positions, _rows, _size, _empty FROM taken t;
                IF _empty IS NOT NULL THEN
                    PERFORM "public"."old_outbox_close"(_empty);
                END IF;
                CONTINUE WHEN _rows IS NULL;
                UPDATE "public"."old_outbox_keys" k SET token = _token, due_at = _now + _lease * interval '1 microsecond'
                WHERE k.ctid = ANY (_rows);
                RETURN QUERY SELECT m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
                    (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, coalesce(m.expires_at <= _now, false), since,
                    since_position
                FROM unnest(_positions) WITH ORDINALITY p(position, n) JOIN "public"."old_outbox" m ON m.position = p.position
                ORDER BY p.n;
                _runs := _runs + cardinality(_rows);
                _left := _left - _size;
            END IF;
        END LOOP;
        _first := _first - _runs;
        _bytes := _bytes - (_budget - _left);
        _to_come := _to_come - 1;
    END LOOP;
END $$;

-- Counts an attempt that begins, and makes its lease a whole one. Null, if somebody else has the
-- message.
CREATE OR REPLACE FUNCTION "public"."old_outbox_begin"(_name text, _key bytea, _position bigint, _token bigint, _lease float8)
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _due timestamptz := clock_timestamp() + _lease * interval '1 microsecond';
    _attempts integer;
BEGIN
    IF _key IS NOT NULL THEN
        UPDATE "public"."old_outbox_keys" k SET due_at = _due WHERE k.name = _name AND k.key = _key AND k.token = _token;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- Whoever has its row is still at work on it, though its lease is over.
    PERFORM FROM "public"."old_outbox" m WHERE m.position = _position AND (_key IS NOT NULL OR m.token = _token) AND m.dead_at IS NULL
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE "public"."old_outbox" SET attempts = attempts + 1, token = _token, due_at = CASE WHEN key IS NULL THEN _due END
    WHERE position = _position RETURNING attempts INTO _attempts;
    RETURN _attempts;
END $$;

-- Says what came of claims, as far as they still hold. _done was done: it is removed, whoever has a
-- claim on it now. _positions were tried and failed, or (dead) are given up. _names, _keys and
-- _lanes (their tokens) are keys to give back. Returns the positions of messages whose rows
-- somebody has locked: to be said again, with their keys, which are kept until then.
--
-- Messages are locked before keys, as claims do, and what is locked is not waited for.
CREATE OR REPLACE FUNCTION "public"."old_outbox_settle"(
    _done bigint[],
    _positions bigint[], _tokens bigint[], _attempts bigint[], _errors text[], _dead bigint[], _delays float8[],
    _names text[], _keys bytea[], _lanes bigint[], _lane_delays float8[]
) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    _held bigint[];
    _locked bigint[];
    _rows tid[];
    _put_off float8[];
BEGIN
    IF cardinality(_done) > 0 THEN
        DELETE FROM "public"."old_outbox" m WHERE m.position = ANY (_done);
    END IF;
    IF cardinality(_positions) > 0 THEN
        SELECT array_agg(h.position) INTO _held FROM (
            SELECT m.position FROM "public"."old_outbox" m WHERE m.position = ANY (_positions) ORDER BY m.position FOR UPDATE SKIP LOCKED
        ) h;
        UPDATE "public"."old_outbox" m SET token = 0, attempts = u.attempts, error = coalesce(u.error, m.error),
            dead_at = CASE WHEN u.dead = 1 THEN clock_timestamp() END,
            due_at = CASE WHEN m.key IS NULL AND u.dead = 0
                THEN clock_timestamp() + u.delay * interval '1 microsecond' END
        FROM unnest(_positions, _tokens, _attempts, _errors, _dead, _delays) u(position, token, attempts, error, dead, delay)
        WHERE m.position = u.position AND m.position = ANY (_held) AND m.dead_at IS NULL AND (m.token = u.token
            OR EXISTS (SELECT FROM "public"."old_outbox_keys" k WHERE k.name = m.name AND k.key = m.key AND k.token = u.token));
        SELECT array_agg(m.position) INTO _locked FROM "public"."old_outbox" m
            WHERE m.position = ANY (_positions) AND m.position <> ALL (coalesce(_held, ARRAY[]::bigint[]));
        RETURN QUERY SELECT unnest(_locked);
    END IF;
    IF cardinality(_names) > 0 THEN
        SELECT array_agg(h.at), array_agg(h.delay) INTO _rows, _put_off FROM (
            SELECT k.ctid AS at, u.delay FROM unnest(_names, _keys, _lanes, _lane_delays) u(name, key, token, delay)
            JOIN "public"."old_outbox_keys" k ON k.name = u.name AND k.key = u.key AND k.token = u.token
            WHERE _locked IS NULL OR NOT EXISTS (
                SELECT FROM "public"."old_outbox" m WHERE m.position = ANY (_locked) AND m.name = u.name AND m.key = u.key)
            ORDER BY k.name, k.key FOR UPDATE OF k
        ) h;
        PERFORM "public"."old_outbox_give_back"(_rows, _put_off);
    END IF;
END $$;

-- Somebody looks for messages of this name (or of all, '') every few milliseconds, for so many
-- milliseconds.
CREATE OR REPLACE FUNCTION "public"."old_outbox_awake"(_name text, _ms float8) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO "public"."old_outbox_bell" AS b VALUES (_name, clock_timestamp() + _ms * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET awake_until = greatest(b.awake_until, excluded.awake_until);
END $$;

-- Makes dead letters the last of their keys: those at these positions, or the oldest so many of a
-- name (or of all). How many. Each takes its key's lock, as whoever enqueues does.
CREATE OR REPLACE FUNCTION "public"."old_outbox_requeue"(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _letter record;
BEGIN
    changed := 0;
    FOR _letter IN
        SELECT d.* FROM (
            SELECT m.position, m.name, m.key FROM "public"."old_outbox" m WHERE m.dead_at IS NOT NULL
                AND (_positions IS NULL OR m.position = ANY (_positions)) AND (_name IS NULL OR m.name = _name)
                AND (_age IS NULL OR m.dead_at < clock_timestamp() - _age * interval '1 microsecond')
            ORDER BY m.position LIMIT _limit
        ) d ORDER BY d.name, d.key, d.position
    LOOP
        IF _letter.key IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock("public"."old_outbox_lock"(_letter.name, _letter.key));
        END IF;
        UPDATE "public"."old_outbox" SET dead_at = NULL, attempts = 0, token = 0, expires_at = NULL,
            position = nextval(pg_get_serial_sequence('"public"."old_outbox"', 'position')),
            due_at = CASE WHEN key IS NULL THEN clock_timestamp() END
        WHERE position = _letter.position AND dead_at IS NOT NULL;
        IF FOUND THEN
            changed := changed + 1;
            IF _letter.key IS NOT NULL THEN
                PERFORM "public"."old_outbox_open"(_letter.name, _letter.key);
            END IF;
            PERFORM "public"."old_outbox_ring"(_letter.name);
        END IF;
    END LOOP;
END $$;

-- Dead letters of a name (or of all) behind a position, oldest first. Times are microseconds since
-- 1970.
CREATE OR REPLACE FUNCTION "public"."old_outbox_letters"(_name text, _behind bigint, _limit bigint) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer, error text,
    enqueued_at bigint, died_at bigint
)
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts, m.error,
        (extract(epoch FROM m.enqueued_at) * 1000000)::bigint, (extract(epoch FROM m.dead_at) * 1000000)::bigint
    FROM "public"."old_outbox" m WHERE m.dead_at IS NOT NULL AND m.position > _behind AND (_name IS NULL OR m.name = _name)
    ORDER BY m.position LIMIT _limit
$$;

-- Removes dead letters: those at these positions, or the oldest so many of a name (or of all) that
-- died so long ago. How many.
CREATE OR REPLACE FUNCTION "public"."old_outbox_discard"(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM "public"."old_outbox" WHERE position IN (
        SELECT m.position FROM "public"."old_outbox" m WHERE m.dead_at IS NOT NULL
            AND (_positions IS NULL OR m.position = ANY (_positions)) AND (_name IS NULL OR m.name = _name)
            AND (_age IS NULL OR m.dead_at < clock_timestamp() - _age * interval '1 microsecond')
        ORDER BY m.position LIMIT _limit
    );
    GET DIAGNOSTICS changed = ROW_COUNT;
END $$;

-- What there is of a name (or of all). waiting: messages that are not dead; runs_due: keys and
-- messages without one that may be taken now; each counted up to a limit. due_for: for how many
-- seconds the first of these has been due. oldest: how many seconds ago the first message that
-- waits was stored.
CREATE OR REPLACE FUNCTION "public"."old_outbox_figures"(
    _name text, _limit bigint,
    OUT waiting bigint, OUT runs_due bigint, OUT dead bigint, OUT due_for float8, OUT oldest float8
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _first timestamptz;
BEGIN
    SELECT count(*) INTO waiting FROM (
        SELECT FROM "public"."old_outbox" m WHERE m.dead_at IS NULL AND (_name IS NULL OR m.name = _name) LIMIT _limit) w;
    SELECT count(*) INTO dead FROM (
        SELECT FROM "public"."old_outbox" m WHERE m.dead_at IS NOT NULL AND (_name IS NULL OR m.name = _name) LIMIT _limit) d;
    SELECT count(*) INTO runs_due FROM (
        SELECT FROM "public"."old_outbox" m WHERE m.key IS NULL AND m.due_at <= _now AND (_name IS NULL OR m.name = _name)
        UNION ALL SELECT FROM "public"."old_outbox_keys" k WHERE k.due_at <= _now AND (_name IS NULL OR k.name = _name) LIMIT _limit) r;
    SELECT least(
        (SELECT min(m.due_at) FROM "public"."old_outbox" m WHERE m.key IS NULL AND m.due_at IS NOT NULL AND (_name IS NULL OR m.name = _name)),
        (SELECT min(k.due_at) FROM "public"."old_outbox_keys" k WHERE _name IS NULL OR k.name = _name)) INTO _first;
    due_for := CASE WHEN _first <= _now THEN extract(epoch FROM _now - _first) ELSE 0 END;
    SELECT extract(epoch FROM _now - m.enqueued_at) INTO oldest FROM "public"."old_outbox" m
        WHERE m.dead_at IS NULL AND (_name IS NULL OR m.name = _name) ORDER BY m.position LIMIT 1;
    oldest := coalesce(oldest, 0);
END $$;
-- A message is waited for once, even if its mark has been dropped meanwhile.
CREATE UNIQUE INDEX IF NOT EXISTS "old_inbox_id" ON "public"."old_inbox" (name, id);

-- Marks an id and stores its message, unless it was marked or waits from before its mark was
-- dropped. Null if it is the first; otherwise when that came, in microseconds since 1970. _mark is
-- the id as it is marked.
--
-- The key's lock before the mark: two that receive the same message do not wait for each other in a
-- circle.
CREATE OR REPLACE FUNCTION "public"."old_inbox_receive"(
    _name text, _mark bytea, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _first_at bigint;
BEGIN
    IF _key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock("public"."old_inbox_lock"(_name, _key));
    END IF;
    _first_at := "public"."old_once"(_name, _mark);
    IF _first_at IS NULL AND "public"."old_inbox_store_one"(_name, _id, _key, _payload, _headers, _due, _expires) IS NULL THEN
        -- It may have been handled meanwhile, and be gone: it is no less a duplicate.
        SELECT (extract(epoch FROM coalesce(min(m.enqueued_at), clock_timestamp())) * 1000000)::bigint INTO _first_at
        FROM "public"."old_inbox" m WHERE m.name = _name AND m.id = _id;
    END IF;
    RETURN _first_at;
END $$;
-- What change data capture reads: rows are inserted, never changed, and removed when they are old.
CREATE TABLE IF NOT EXISTS "public"."old_outbox_capture" (
    position bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    name text COLLATE "C" NOT NULL,
    key bytea,
    id bytea NOT NULL,
    headers text[],
    payload bytea NOT NULL
);

-- Inserts rows of one topic, in their order.
CREATE OR REPLACE FUNCTION "public"."old_capture"(
    _name text, _ids bytea[], _keys bytea[], _payloads bytea[], _headers text[]
) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH stored AS (
        INSERT INTO "public"."old_outbox_capture" (name, id, key, payload, headers)
        SELECT _name, g.id, g.key, g.payload, g.headers::text[]
        FROM unnest(_ids, _keys, _payloads, _headers) WITH ORDINALITY AS g(id, key, payload, headers, n) ORDER BY g.n
        RETURNING 1
    ) SELECT count(*) FROM stored
$$;

-- Removes the oldest rows, at most so many, that were inserted so many microseconds ago. How many.
CREATE OR REPLACE FUNCTION "public"."old_capture_expire"(_age float8, _limit bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _removed bigint;
BEGIN
    -- Only the oldest are looked at: what was inserted late is removed by a later call.
    DELETE FROM "public"."old_outbox_capture" WHERE position IN (
        SELECT o.position FROM (SELECT c.position, c.recorded_at FROM "public"."old_outbox_capture" c ORDER BY c.position LIMIT _limit) o
        WHERE o.recorded_at < clock_timestamp() - _age * interval '1 microsecond'
    );
    GET DIAGNOSTICS _removed = ROW_COUNT;
    RETURN _removed;
END $$;
INSERT INTO "public"."old_flow_migrations" (version, compatible_from) VALUES (2, 2) ON CONFLICT DO NOTHING;
COMMIT;
