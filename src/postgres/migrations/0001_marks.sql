-- Which migrations have run.
CREATE TABLE IF NOT EXISTS {migrations} (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- The partitions of marks. Marks are written into the one that is open, which is the last.
CREATE TABLE IF NOT EXISTS {buckets} (
    bucket integer PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz
);
-- Ids that a consumer has processed, or received.
CREATE TABLE IF NOT EXISTS {marks} (
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    bucket integer NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    PRIMARY KEY (consumer, id, bucket)
) PARTITION BY LIST (bucket);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM {buckets}) THEN
        CREATE TABLE {partition} PARTITION OF {marks} FOR VALUES IN (1);
        INSERT INTO {buckets} (bucket) VALUES (1);
    END IF;
END $$;

-- Marks an id. Null if it is the first; otherwise when it was marked, in microseconds since 1970.
CREATE OR REPLACE FUNCTION {once}(_consumer text, _id bytea) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _first_at timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock_shared({marks_lock});
    PERFORM FROM {buckets} WHERE closed_at IS NULL
        AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE;
    SELECT m.first_at INTO _first_at FROM {marks} m WHERE m.consumer = _consumer AND m.id = _id ORDER BY m.first_at LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO {marks} (bucket, consumer, id) SELECT max(b.bucket), _consumer, _id FROM {buckets} b
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT m.first_at INTO _first_at FROM {marks} m WHERE m.consumer = _consumer AND m.id = _id
        ORDER BY m.first_at LIMIT 1;
    END IF;
    RETURN (extract(epoch FROM _first_at) * 1000000)::bigint;
END $$;
