-- Which migrations have run, and how records are laid out.
CREATE TABLE IF NOT EXISTS {migrations} (
    version integer PRIMARY KEY,
    layout text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Scopes by number, so that a row has four bytes of its scope, whatever the scope is called.
CREATE TABLE IF NOT EXISTS {scopes} (
    scope integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
-- The partitions of each table of records: table 0 has all scopes, table n has scope n alone. Rows are written into the
-- last one only.
CREATE TABLE IF NOT EXISTS {buckets} (
    family integer NOT NULL,
    bucket integer NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When nothing in it counts any more, and how much was in it: known once it is closed.
    live_until timestamptz,
    records bigint,
    PRIMARY KEY (family, bucket)
);
