BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "alembic_version" VALUES('0014');
CREATE TABLE clashes (
	id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	pair_hash TEXT NOT NULL, 
	run_key TEXT NOT NULL, 
	type TEXT NOT NULL, 
	topic TEXT NOT NULL, 
	strategy TEXT NOT NULL, 
	record_id TEXT NOT NULL, 
	critical BOOLEAN NOT NULL, 
	statements BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	seen_at FLOAT NOT NULL, 
	status TEXT NOT NULL, 
	resolution TEXT NOT NULL, 
	resolved_by TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	merged BLOB NOT NULL, 
	resolved_at FLOAT, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE client_keys (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	content BLOB NOT NULL, 
	version BIGINT NOT NULL, 
	changed_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE decisions (
	id TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	client_key TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	decision TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	decided_by TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	decided_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE failure_revisions (
	id TEXT NOT NULL, 
	failure_id TEXT NOT NULL, 
	revision BIGINT, 
	event TEXT NOT NULL, 
	made_by TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	content BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE failures (
	number INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	client_key TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	run_key TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	status TEXT NOT NULL, 
	signal_type TEXT NOT NULL, 
	code TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	content BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	last_seen_at FLOAT NOT NULL, 
	updated_at FLOAT NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE feedback (
	id TEXT NOT NULL, 
	record_id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	stage TEXT NOT NULL, 
	place TEXT NOT NULL, 
	label TEXT NOT NULL, 
	said TEXT NOT NULL, 
	expected TEXT NOT NULL, 
	said_by TEXT NOT NULL, 
	note TEXT NOT NULL, 
	content BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE key_days (
	id TEXT NOT NULL, 
	day TEXT NOT NULL, 
	client TEXT NOT NULL, 
	team TEXT NOT NULL, 
	model TEXT NOT NULL, 
	requests BIGINT NOT NULL, 
	refused BIGINT NOT NULL, 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	micro_usd BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE limit_accounts (
	id TEXT NOT NULL, 
	content BLOB NOT NULL, 
	used_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE memory (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	client TEXT NOT NULL, 
	link TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	content BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	used_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE quarantine (
	id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	client_key TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	role TEXT NOT NULL, 
	type TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	source TEXT NOT NULL, 
	record_id TEXT NOT NULL, 
	score FLOAT, 
	detail BLOB NOT NULL, 
	content BLOB NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	seen_at FLOAT NOT NULL, 
	seen_count BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	decided_by TEXT NOT NULL, 
	decision_reason TEXT NOT NULL, 
	decided_at FLOAT, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
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
	reason TEXT DEFAULT '' NOT NULL, 
	would TEXT DEFAULT '' NOT NULL, 
	overhead_ms FLOAT, 
	cost_usd FLOAT, 
	question TEXT DEFAULT '' NOT NULL, 
	answer TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE rollup_changes (
	id INTEGER NOT NULL, 
	minute BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE rollup_marks (
	id INTEGER NOT NULL, 
	complete_from FLOAT NOT NULL, 
	marked_from FLOAT, 
	PRIMARY KEY (id)
);
CREATE TABLE rollups (
	seconds INTEGER NOT NULL, 
	start BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	built BIGINT NOT NULL, 
	wait_until FLOAT NOT NULL, 
	panels TEXT NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (seconds, start)
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
CREATE TABLE tool_outcomes (
	id TEXT NOT NULL, 
	client TEXT NOT NULL, 
	embedder TEXT NOT NULL, 
	tool_key TEXT NOT NULL, 
	tool_name TEXT NOT NULL, 
	query_hash TEXT NOT NULL, 
	vector BLOB NOT NULL, 
	weight FLOAT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX records_run ON records (run_id, id);
CREATE INDEX records_client ON records (client, id);
CREATE INDEX records_line ON records (created_at, id, outcome, status, reason, would, route, model, client, duration_ms, overhead_ms, prompt_tokens_before, prompt_tokens, completion_tokens, cost_usd);
CREATE INDEX scratchpad_created_at ON scratchpad (created_at, id);
CREATE INDEX scratchpad_run ON scratchpad (client, run_id);
CREATE INDEX scratchpad_used_at ON scratchpad (used_at);
CREATE INDEX memory_used_at ON memory (used_at);
CREATE INDEX tool_outcomes_client ON tool_outcomes (client, created_at);
CREATE INDEX tool_outcomes_tool ON tool_outcomes (tool_key, client);
CREATE INDEX tool_outcomes_created_at ON tool_outcomes (created_at);
CREATE INDEX quarantine_run ON quarantine (client, run_id);
CREATE INDEX quarantine_client_key ON quarantine (client_key);
CREATE INDEX quarantine_seen_at ON quarantine (seen_at);
CREATE INDEX quarantine_created_at ON quarantine (created_at, id);
CREATE INDEX quarantine_status ON quarantine (status, created_at, id);
CREATE INDEX clashes_seen_at ON clashes (seen_at);
CREATE INDEX clashes_created_at ON clashes (created_at, id);
CREATE INDEX clashes_run ON clashes (client, run_id);
CREATE INDEX clashes_run_key ON clashes (run_key, created_at, id);
CREATE INDEX decisions_subject ON decisions (subject, number);
CREATE INDEX decisions_client_key ON decisions (client_key, scope, decided_at);
CREATE INDEX decisions_decided_at ON decisions (decided_at);
CREATE INDEX failures_created_at ON failures (created_at, id);
CREATE INDEX failures_client_key ON failures (client_key, status, last_seen_at, number, subject);
CREATE UNIQUE INDEX failures_id ON failures (id);
CREATE INDEX failures_updated_at ON failures (updated_at);
CREATE INDEX failures_run ON failures (run_id, created_at, id);
CREATE INDEX failures_client_subject ON failures (client_key, status, subject, last_seen_at, number);
CREATE INDEX failures_run_key ON failures (run_key, status, last_seen_at, number, subject);
CREATE INDEX failures_run_subject ON failures (run_key, status, subject, last_seen_at, number);
CREATE INDEX failures_client_fingerprint ON failures (client_key, status, fingerprint, last_seen_at, number);
CREATE INDEX failure_revisions_failure ON failure_revisions (failure_id, created_at, id);
CREATE INDEX failure_revisions_created_at ON failure_revisions (created_at);
CREATE INDEX feedback_record ON feedback (record_id);
CREATE INDEX feedback_created_at ON feedback (created_at, id);
CREATE INDEX client_keys_sha256 ON client_keys (sha256);
CREATE INDEX key_days_day ON key_days (day, client);
CREATE INDEX rollups_due ON rollups (seconds, start) WHERE built <> version;
CREATE INDEX records_troubled ON records (created_at, run_id, outcome, status) WHERE outcome IN ('warn', 'block', 'error', 'upstream_error') OR status >= 500;
CREATE INDEX records_held_back ON records (created_at, id) WHERE would = 'block';
CREATE INDEX records_pending ON records (created_at) WHERE outcome = 'pending';
CREATE INDEX memory_processes ON memory (used_at) WHERE kind = 'process';
CREATE INDEX memory_histories ON memory (client, used_at) WHERE kind = 'history';
COMMIT;
