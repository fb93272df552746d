
-- Claims a few messages of each of these names, to probe whether any can be published: up to _first
-- without a key, and the first messages of as many keys. Those come first that never failed: the
-- newest (so that it does not wait behind many that cannot be published), then the oldest. If there
-- are too few, those that have been due for longest. Of each name and kind up to _bytes, and at
-- least one.
--
-- The newest is looked for among the last 1,000 of the table, since what is given back has a new
-- due_at. At most 10,000 that have failed are passed over.
CREATE OR REPLACE FUNCTION {queue_probe}(
    _names text[], _first bigint, _bytes bigint, _lease float8, _token bigint
) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer,
    enqueued_at bigint, is_expired boolean, was_lost boolean, kind text, source text, subject text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _busy bigint[];
    _name text;
    _newest bigint;
    _newest_key bytea;
    _positions bigint[];
    _keys bytea[];
    _heads bigint[];
    _rows tid[];
    _empty tid[];
BEGIN
    PERFORM pg_advisory_xact_lock({take_lock}, u.number)
        FROM (SELECT DISTINCT hashtext(n) AS number FROM unnest(_names) n ORDER BY 1) u;
    FOREACH _name IN ARRAY _names LOOP
        _busy := ARRAY(SELECT unnest(c.positions) FROM {queue_claims} c WHERE c.name = _name AND c.until > _now);
        IF EXISTS (SELECT FROM {queue} m WHERE m.later AND m.name = _name AND m.due_at <= _now) THEN
            PERFORM {queue_place}(_name, '-infinity');
        END IF;
        _newest := NULL;
        _newest_key := NULL;
        SELECT n.position, n.key INTO _newest, _newest_key FROM (
            SELECT m.position, m.name, m.key, m.due_at, m.attempts, m.dead_at, m.later FROM {queue} m
            ORDER BY m.position DESC LIMIT 1000
        ) n WHERE n.name = _name AND n.attempts = 0 AND n.dead_at IS NULL AND NOT n.later
            AND n.position NOT IN (SELECT unnest(_busy))
            AND CASE WHEN n.key IS NULL THEN n.due_at <= _now ELSE
                EXISTS (SELECT FROM {queue_keys} k WHERE k.name = _name AND k.key = n.key AND k.due_at <= _now)
                AND n.position = (
                    SELECT f.position FROM {queue} f WHERE f.name = _name AND f.key = n.key AND f.dead_at IS NULL
                        AND NOT f.later ORDER BY f.position LIMIT 1
                ) END
        LIMIT 1;
        _positions := ARRAY(SELECT _newest WHERE _newest_key IS NULL AND _newest IS NOT NULL);
        _positions := _positions || ARRAY(
            SELECT o.position FROM (
                SELECT m.position, m.attempts FROM {queue} m WHERE m.name = _name AND m.key IS NULL
                    AND m.due_at <= _now AND m.position NOT IN (SELECT unnest(_busy))
                ORDER BY m.name, m.due_at, m.position LIMIT 10000
            ) o WHERE o.attempts = 0 AND o.position <> ALL (_positions) LIMIT _first - cardinality(_positions)
        );
        _positions := _positions || ARRAY(
            SELECT m.position FROM {queue} m WHERE m.name = _name AND m.key IS NULL AND m.due_at <= _now
                AND m.attempts > 0 AND m.position NOT IN (SELECT unnest(_busy)) ORDER BY m.name, m.due_at, m.position LIMIT _first - cardinality(_positions)
        );
        SELECT array_agg(s.at) INTO _rows FROM (
            SELECT d.at, sum(d.size) OVER w AS bytes, row_number() OVER w AS n FROM (
                SELECT m.ctid AS at, m.due_at, m.position, octet_length(m.payload) AS size FROM {queue} m
                WHERE m.position = ANY (_positions) AND m.key IS NULL AND m.due_at <= _now FOR UPDATE SKIP LOCKED
            ) d WINDOW w AS (ORDER BY d.due_at, d.position)
        ) s WHERE s.bytes <= _bytes OR s.n = 1;
        RETURN QUERY UPDATE {queue} m
        SET token = _token, due_at = clock_timestamp() + _lease * interval '1 microsecond'
        WHERE m.ctid = ANY (_rows) RETURNING m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
            {queue_micros}(m.enqueued_at), coalesce(m.expires_at <= _now, false), false,
            m.kind, m.source, m.subject;

        _keys := ARRAY(SELECT _newest_key WHERE _newest_key IS NOT NULL);
        _keys := _keys || ARRAY(
            SELECT o.key FROM (
                SELECT k.key FROM {queue_keys} k WHERE k.name = _name AND k.due_at <= _now
                ORDER BY k.name, k.due_at LIMIT 10000
            ) o WHERE o.key <> ALL (_keys) AND 0 = (
                SELECT m.attempts FROM {queue} m WHERE m.name = _name AND m.key = o.key AND m.dead_at IS NULL
                    AND NOT m.later ORDER BY m.position LIMIT 1
            ) LIMIT _first - cardinality(_keys)
        );
        _keys := _keys || ARRAY(
            SELECT k.key FROM {queue_keys} k WHERE k.name = _name AND k.due_at <= _now AND k.key <> ALL (_keys)
            ORDER BY k.name, k.due_at LIMIT _first - cardinality(_keys)
        );
        SELECT array_agg(d.at), array_agg(d.key), array_agg(d.head) INTO _rows, _keys, _heads FROM (
            SELECT k.ctid AS at, k.key, k.head FROM {queue_keys} k
            WHERE k.name = _name AND k.key = ANY (_keys) AND k.due_at <= _now FOR UPDATE SKIP LOCKED
        ) d;
        CONTINUE WHEN _rows IS NULL;
        -- A statement of its own, which sees what whoever had these keys before has left.
        WITH found AS MATERIALIZED (
            SELECT h.at, h.n, f.position, sum(f.size) OVER (ORDER BY f.position) AS bytes,
                row_number() OVER (ORDER BY f.position) AS nth
            FROM unnest(_rows, _keys, _heads) WITH ORDINALITY h(at, key, head, n) LEFT JOIN LATERAL (
                SELECT m.position, octet_length(m.payload) AS size FROM {queue} m
                WHERE m.name = _name AND m.key = h.key AND m.position >= h.head AND m.dead_at IS NULL AND NOT m.later
                ORDER BY m.position LIMIT 1
            ) f ON true
        ) SELECT array_agg(f.position) FILTER (WHERE f.bytes <= _bytes OR f.nth = 1),
            array_agg(f.at) FILTER (WHERE f.position IS NOT NULL AND (f.bytes <= _bytes OR f.nth = 1)),
            array_agg(f.at) FILTER (WHERE f.position IS NULL)
        INTO _positions, _rows, _empty FROM found f;
        IF _empty IS NOT NULL THEN
            PERFORM {queue_close}(_empty);
        END IF;
        UPDATE {queue_keys} k SET token = _token, due_at = clock_timestamp() + _lease * interval '1 microsecond'
        WHERE k.ctid = ANY (_rows);
        RETURN QUERY SELECT m.position, m.name, m.key, m.id, m.payload, m.headers, m.attempts,
            {queue_micros}(m.enqueued_at), coalesce(m.expires_at <= _now, false), false,
            m.kind, m.source, m.subject
        FROM {queue} m WHERE m.position = ANY (_positions);
    END LOOP;
END $$;
