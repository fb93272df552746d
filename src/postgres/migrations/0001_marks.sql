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
