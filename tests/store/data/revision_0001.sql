BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE records (
	id TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	client TEXT NOT NULL, 
	route TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	upstream TEXT NOT NULL, 
	model TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	step_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	outcome TEXT NOT NULL, 
	stream BOOLEAN NOT NULL, 
	duration_ms FLOAT NOT NULL, 
	prompt_tokens_before BIGINT, 
	prompt_tokens BIGINT, 
	completion_tokens BIGINT, 
	size_bytes BIGINT NOT NULL, 
	detail BLOB NOT NULL, 
	request_body BLOB, 
	answer_body BLOB, 
	PRIMARY KEY (id)
);
CREATE TABLE scratchpad (
	id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	media_type TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	used_at FLOAT NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX records_created_at ON records (created_at);
CREATE INDEX records_run ON records (run_id, id);
CREATE INDEX records_client ON records (client, id);
CREATE INDEX scratchpad_used_at ON scratchpad (used_at);
CREATE INDEX scratchpad_run ON scratchpad (client, run_id);
COMMIT;
