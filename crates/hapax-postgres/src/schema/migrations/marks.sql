-- The partitions of marks, called buckets: numbers without gaps. closed_at: since when nobody
-- writes into it any more.
CREATE TABLE IF NOT EXISTS {mark_buckets} (
    bucket integer PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz
);
-- Which buckets are looked at, from the oldest to the newest, and which are written into: the
-- newest, and while it is double, the one before it, too. One row.
CREATE TABLE IF NOT EXISTS {mark_state} (
    one integer PRIMARY KEY CHECK (one = 1),
    oldest integer NOT NULL,
    newest integer NOT NULL,
    is_double boolean NOT NULL
);
-- Ids that a consumer has processed, or received. A bucket is kept in the slot of its number modulo
-- {slots}, which is a partition, made when it is first needed and emptied when its bucket is over.
-- expires_at: from then on a mark counts for nothing; null: as long as its bucket is kept. content:
-- a fingerprint of the message; null if nobody compares it.
CREATE TABLE IF NOT EXISTS {marks} (
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot integer NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    content bytea,
    expires_at timestamptz,
    PRIMARY KEY (consumer, id, slot)
) PARTITION BY LIST (slot);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM {mark_state}) THEN
        CREATE TABLE {marks_1} PARTITION OF {marks} FOR VALUES IN (1);
        INSERT INTO {mark_buckets} (bucket) VALUES (1);
        INSERT INTO {mark_state} VALUES (1, 1, 1, false);
    END IF;
END $$;
