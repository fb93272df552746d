-- What was handled, by whom and when: of messages that say what they are, and all of those that are
-- to be kept. A row is in the slot of the marks of its time, and goes with them.
--
-- Which slot is written into: the newest that is not double. Whoever has marked holds the lock of
-- that bucket or a later one, so no transaction comes to a slot of which its session has not heard.
CREATE SEQUENCE IF NOT EXISTS {handled_number};
CREATE TABLE IF NOT EXISTS {handled} (
    number bigint NOT NULL DEFAULT nextval('{handled_number}'::regclass),
    handled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    received_at timestamptz,
    requeued_at timestamptz,
    slot integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    consumer text COLLATE "C" NOT NULL,
    processor text COLLATE "C",
    kind text COLLATE "C",
    source text COLLATE "C",
    subject text COLLATE "C",
    id bytea NOT NULL,
    key bytea,
    headers text[],
    payload bytea,
    error text,
    result bytea,
    PRIMARY KEY (number, slot)
) PARTITION BY LIST (slot);
CREATE INDEX IF NOT EXISTS "{prefix}_handled_subject" ON {handled} (subject, number) WHERE subject IS NOT NULL;
CREATE INDEX IF NOT EXISTS "{prefix}_handled_id" ON {handled} (consumer, id) WHERE payload IS NOT NULL;
CREATE TABLE IF NOT EXISTS {handled_1} PARTITION OF {handled} FOR VALUES IN (1);

-- Lets those who list what was handled know of this transaction, before it takes its first number:
-- from then on, until it ends, it may commit any number that is larger than the last one now.
CREATE OR REPLACE FUNCTION {handled_begin}() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _last bigint;
BEGIN
    IF current_setting('{numbered}', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        _last := coalesce(pg_sequence_last_value('{handled_number}'::regclass), 0) & 4294967295;
        PERFORM pg_advisory_xact_lock_shared({numbers_lock},
            (CASE WHEN _last > 2147483647 THEN _last - 4294967296 ELSE _last END)::integer);
        PERFORM set_config('{numbered}', pg_current_xact_id()::text, true);
    END IF;
END $$;

-- Marks an id as {once} does, and writes down what it was. Null if it is the first; otherwise when
-- that came, in microseconds since 1970. _mark is the id as it is marked, _keep for how many
-- microseconds, or null: as long as its bucket is kept.
CREATE OR REPLACE FUNCTION {mark_kept}(
    _consumer text, _mark bytea, _id bytea, _kind text, _source text, _subject text, _processor text, _keep float8
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _first_at bigint;
    _slot integer;
BEGIN
    _first_at := {once_kept}(_consumer, _mark, NULL::bytea, _keep);
    IF _first_at IS NULL THEN
        PERFORM {handled_begin}();
        SELECT (s.newest - s.is_double::integer) & {slot_mask} INTO STRICT _slot FROM {mark_state} s WHERE s.one = 1;
        INSERT INTO {handled} (slot, attempts, consumer, processor, kind, source, subject, id)
        VALUES (_slot, 1, _consumer, _processor, _kind, _source, _subject, _id);
    END IF;
    RETURN _first_at;
END $$;

-- The same without _keep.
CREATE OR REPLACE FUNCTION {mark}(
    _consumer text, _mark bytea, _id bytea, _kind text, _source text, _subject text, _processor text
) RETURNS bigint
LANGUAGE sql
RETURN {mark_kept}(_consumer, _mark, _id, _kind, _source, _subject, _processor, NULL::float8);

-- Marks ids as {once_batch_kept} does, and writes down what the first ones were: of an id that is
-- named several times, what is said first.
CREATE OR REPLACE FUNCTION {mark_batch_kept}(
    _consumer text, _marks bytea[], _ids bytea[], _kinds text[], _sources text[], _subjects text[], _processors text[],
    _keeps float8[]
) RETURNS TABLE (marked_id bytea, marked_at bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    _marked bytea[];
    _times bigint[];
    _are_first boolean[];
    _slot integer;
BEGIN
    SELECT array_agg(m.marked_id), array_agg(m.marked_at), array_agg(m.is_first) INTO _marked, _times, _are_first
        FROM {once_batch_kept}(_consumer, _marks, _keeps) m;
    PERFORM {handled_begin}();
    SELECT (s.newest - s.is_double::integer) & {slot_mask} INTO STRICT _slot FROM {mark_state} s WHERE s.one = 1;
    INSERT INTO {handled} (slot, attempts, consumer, processor, kind, source, subject, id)
    SELECT _slot, 1, _consumer, t.processor, t.kind, t.source, t.subject, t.id FROM (
        SELECT DISTINCT ON (g.mark) g.* FROM unnest(_marks, _ids, _kinds, _sources, _subjects, _processors)
            WITH ORDINALITY g(mark, id, kind, source, subject, processor, n) ORDER BY g.mark, g.n
    ) t JOIN unnest(_marked, _are_first) m(mark, is_first) ON m.mark = t.mark AND m.is_first
    WHERE coalesce(t.kind, t.source, t.subject, t.processor) IS NOT NULL ORDER BY t.n;
    RETURN QUERY SELECT m.* FROM unnest(_marked, _times, _are_first) m;
END $$;

-- The same without _keeps.
CREATE OR REPLACE FUNCTION {mark_batch}(
    _consumer text, _marks bytea[], _ids bytea[], _kinds text[], _sources text[], _subjects text[], _processors text[]
) RETURNS TABLE (marked_id bytea, marked_at bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM {mark_batch_kept}(_consumer, _marks, _ids, _kinds, _sources, _subjects, _processors,
        NULL::float8[]);
END $$;

-- Removes messages that are handled, each after so many attempts more than were counted. Unless
-- _is_whole is null, it writes down what they were: all of them, with their content, so that they can
-- be requeued, if that is true; otherwise those that say what they are.
CREATE OR REPLACE FUNCTION {inbox_finish}(_positions bigint[], _more integer, _processor text, _is_whole boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    _slot integer;
BEGIN
    IF _is_whole IS NULL THEN
        DELETE FROM {inbox} m WHERE m.position = ANY (_positions);
        RETURN;
    END IF;
    PERFORM {handled_begin}();
    SELECT (s.newest - s.is_double::integer) & {slot_mask} INTO STRICT _slot FROM {mark_state} s WHERE s.one = 1;
    WITH gone AS (
        DELETE FROM {inbox} m WHERE m.position = ANY (_positions) RETURNING m.*
    ) INSERT INTO {handled} (
        slot, received_at, attempts, consumer, processor, kind, source, subject, id, key, headers, payload, error, result
    ) SELECT _slot, g.enqueued_at, g.attempts + _more, g.name, _processor, g.kind, g.source, g.subject, g.id,
        CASE WHEN _is_whole THEN g.key END, CASE WHEN _is_whole THEN g.headers END,
        CASE WHEN _is_whole THEN g.payload END, g.error, g.result
    FROM gone g WHERE _is_whole OR coalesce(g.kind, g.subject) IS NOT NULL ORDER BY g.position;
END $$;

-- Keeps a handler's result with its message, which its transaction has locked. False if the message
-- is not there. Another one of its id may be: as a dead letter, or in somebody else's hands.
CREATE OR REPLACE FUNCTION {inbox_result}(_name text, _id bytea, _result bytea) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE {inbox} m SET result = _result WHERE m.ctid = ANY (ARRAY(
        SELECT l.ctid FROM {inbox} l WHERE l.name = _name AND l.id = _id AND l.dead_at IS NULL FOR UPDATE SKIP LOCKED
    ));
    RETURN FOUND;
END $$;

-- The slots that are read, as a list: a statement with their numbers in it locks no others.
CREATE OR REPLACE FUNCTION {handled_slots}() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _slots text;
BEGIN
    SELECT string_agg((b.bucket & {slot_mask})::text, ', ') INTO STRICT _slots
    FROM {mark_state} s, generate_series(s.oldest, s.newest) b(bucket) WHERE s.one = 1;
    RETURN _slots;
END $$;

-- What was handled, behind a number, in the order of numbers. Each null is any. Times are
-- microseconds since 1970.
--
-- Numbers are taken before the commit. So none is listed behind which another may still appear: the
-- last number is read first, then who is open (whoever is not takes larger ones, or has ended), and
-- then, by a statement of its own, which sees all that has ended, what there is up to there.
CREATE OR REPLACE FUNCTION {handled_list}(
    _subject text, _consumer text, _kind text, _processor text, _behind bigint, _limit bigint, _is_whole boolean
) RETURNS TABLE (
    number bigint, consumer text, processor text, kind text, source text, subject text, id bytea, key bytea,
    headers text[], payload bytea, is_kept boolean, error text, result bytea, attempts integer, received_at bigint,
    handled_at bigint, requeued_at bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    _last bigint := coalesce(pg_sequence_last_value('{handled_number}'::regclass), 0);
    _open bigint;
BEGIN
    SELECT min(_last - ((_last - l.objid::bigint) & 4294967295)) INTO _open FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = {numbers_class}::oid AND l.objsubid = 2
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.pid IS DISTINCT FROM pg_backend_pid();
    _last := least(_last, _open);
    RETURN QUERY EXECUTE format(
        'SELECT h.number, h.consumer, h.processor, h.kind, h.source, h.subject, h.id, h.key, h.headers,
            CASE WHEN $7 THEN h.payload END, h.payload IS NOT NULL, h.error, h.result, h.attempts,
            {inbox_micros}(h.received_at), {inbox_micros}(h.handled_at),
            {inbox_micros}(h.requeued_at)
        FROM {handled} h WHERE h.slot IN (%s) AND h.number > $5 AND h.number <= $8 AND ($1 IS NULL OR h.subject = $1)
            AND ($2 IS NULL OR h.consumer = $2) AND ($3 IS NULL OR h.kind = $3) AND ($4 IS NULL OR h.processor = $4)
        ORDER BY h.number LIMIT $6', {handled_slots}())
    USING _subject, _consumer, _kind, _processor, _behind, _limit, _is_whole, _last;
END $$;

-- Lets messages that were handled, and kept, wait again, each as the last of its key: those of
-- these numbers that are of these consumers and have these ids, or (_numbers is null) those of a
-- consumer with these ids. A number alone names nothing: see {inbox_settle}. How many. One that
-- waits (or is a dead letter) is not doubled, and a row is requeued once: whoever comes second finds
-- that it was.
CREATE OR REPLACE FUNCTION {handled_requeue}(
    _numbers bigint[], _consumers text[], _ids bytea[], _limit bigint, OUT changed bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    _row record;
    _message record;
BEGIN
    changed := 0;
    FOR _row IN EXECUTE format(
        'SELECT r.* FROM (
            SELECT h.number, h.slot, h.consumer, h.key FROM {handled} h
            WHERE h.slot IN (%s) AND h.payload IS NOT NULL AND h.requeued_at IS NULL
                AND CASE WHEN $1 IS NULL THEN h.consumer = $2[1] AND h.id = ANY ($3)
                ELSE h.number = ANY ($1) AND (h.number, h.consumer, h.id) IN (SELECT * FROM unnest($1, $2, $3)) END
            ORDER BY h.number LIMIT $4
        ) r ORDER BY r.consumer, r.key, r.number', {handled_slots}())
    USING _numbers, _consumers, _ids, _limit
    LOOP
        -- The key's lock before the row's: as whoever receives, who holds no row.
        IF _row.key IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock({inbox_lock}(_row.consumer, _row.key));
        END IF;
        SELECT h.* INTO _message FROM {handled} h
            WHERE h.number = _row.number AND h.slot = _row.slot AND h.requeued_at IS NULL FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        CONTINUE WHEN {inbox_store_one}(_message.consumer, _message.id, _message.key, _message.payload,
            _message.headers::text, NULL::float8, NULL::float8, _message.kind, _message.source, _message.subject) IS NULL;
        UPDATE {handled} h SET requeued_at = clock_timestamp() WHERE h.number = _row.number AND h.slot = _row.slot;
        changed := changed + 1;
    END LOOP;
END $$;
