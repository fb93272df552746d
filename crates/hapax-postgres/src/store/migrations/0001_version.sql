INSERT INTO {migrations} (version, layout) VALUES (1, '{layout}') ON CONFLICT DO NOTHING;
