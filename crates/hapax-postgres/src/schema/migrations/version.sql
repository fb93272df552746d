-- Tables of a later version are left alone. Those of version 1 get what they lack.
DO $hapax$
DECLARE
    found integer;
BEGIN
    -- A table of the role's own, or the check above would have failed.
    IF to_regclass('{flow_migrations}') IS NOT NULL THEN
        EXECUTE 'SELECT max(version) FROM {flow_migrations}' INTO found;
        IF found NOT IN (1, {version}) THEN
            RAISE EXCEPTION 'expected no tables {shown}, or those of version {version}, got version %', found
                USING ERRCODE = 'object_not_in_prerequisite_state';
        ELSIF found = 1 THEN
            ALTER TABLE {marks} ADD COLUMN content bytea, ADD COLUMN expires_at timestamptz;
            ALTER TABLE {inbox} ADD COLUMN other bytea NOT NULL DEFAULT '';
            DROP INDEX {inbox_id};
        END IF;
    END IF;
END $hapax$;
-- Which version the tables are of. Functions that mean something else in another version have other
-- names there, so that calls of code that is not for it fail.
CREATE TABLE IF NOT EXISTS {flow_migrations} (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Random, for the locks of keys.
    seed bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
-- The seed stays: an older process goes on meanwhile, and has locks by it.
INSERT INTO {flow_migrations} (version, seed) SELECT {version}, v.seed FROM {flow_migrations} v WHERE v.version = 1
ON CONFLICT DO NOTHING;
INSERT INTO {flow_migrations} (version) VALUES ({version}) ON CONFLICT DO NOTHING;
