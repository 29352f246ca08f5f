CREATE TABLE rsc_store (
  one smallint PRIMARY KEY CHECK (one = 1),
  id bytea NOT NULL,
  emptied smallint NOT NULL
);
-- Unlogged: a crash empties it, and with it go commits that were not waited for.
CREATE UNLOGGED TABLE rsc_instance (
  one smallint PRIMARY KEY CHECK (one = 1),
  name bytea NOT NULL
);
CREATE TABLE rsc_groups (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream bytea NOT NULL,
  grp bytea NOT NULL,
  revision bigint NOT NULL,
  nonce bytea NOT NULL,
  body bytea NOT NULL,
  schema_version integer NOT NULL,
  updated_at text NOT NULL,
  UNIQUE (stream, grp)
);
-- To compress a body takes longer than to write it.
ALTER TABLE rsc_groups ALTER COLUMN body SET STORAGE EXTERNAL;
-- Room in each page lets a renewal replace a row where it lies, without an index.
CREATE UNLOGGED TABLE rsc_lives (
  group_id bigint NOT NULL,
  life bytea NOT NULL,
  stamp bytea,
  report bytea,
  PRIMARY KEY (group_id, life)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE TABLE rsc_streams (
  prefix bytea PRIMARY KEY,
  revision bigint NOT NULL,
  nonce bytea NOT NULL,
  body bytea NOT NULL
);
ALTER TABLE rsc_streams ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE rsc_audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind smallint NOT NULL,
  stream bytea NOT NULL,
  grp bytea NOT NULL,
  entry text NOT NULL
);
CREATE INDEX rsc_audit_lists ON rsc_audit (kind, stream, grp, id);
