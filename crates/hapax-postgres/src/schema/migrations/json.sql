-- A payload as JSON, for whoever looks into the tables; null if it is none. The payload itself stays
-- as it was given, byte for byte. It may be indexed.
CREATE OR REPLACE FUNCTION {json}(_payload bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_from(_payload, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
