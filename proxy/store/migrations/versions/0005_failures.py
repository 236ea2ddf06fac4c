"""Failures of runs: what each record says now, and every revision."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    """Create the two tables and their indexes."""
    op.create_table(
        "failures",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        *_texts("id", "client", "client_key", "run_id", "run_key", "policy"),
        *_texts("status", "signal_type", "code", "severity", "subject", "fingerprint"),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("last_seen_at", sa.Float(53), nullable=False),
        sa.Column("updated_at", sa.Float(53), nullable=False),
    )
    op.create_index("failures_id", "failures", ["id"], unique=True)
    op.create_index("failures_created_at", "failures", ["created_at", "id"])
    op.create_index("failures_run", "failures", ["run_id", "created_at", "id"])
    op.create_index("failures_run_key", "failures", ["run_key", "status", "last_seen_at", "number", "subject"])
    op.create_index("failures_run_subject", "failures", ["run_key", "status", "subject", "last_seen_at", "number"])
    op.create_index("failures_client_key", "failures", ["client_key", "status", "last_seen_at", "number", "subject"])
    op.create_index("failures_client_subject", "failures", ["client_key", "status", "subject", "last_seen_at", "number"])
    op.create_index("failures_client_fingerprint", "failures", ["client_key", "status", "fingerprint", "last_seen_at", "number"])
    op.create_index("failures_updated_at", "failures", ["updated_at"])
    op.create_table(
        "failure_revisions",
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("failure_id"),
        sa.Column("revision", sa.BigInteger),
        *_texts("event", "made_by", "reason"),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
    )
    op.create_index("failure_revisions_failure", "failure_revisions", ["failure_id", "created_at", "id"])
    op.create_index("failure_revisions_created_at", "failure_revisions", ["created_at"])


def downgrade() -> None:
    """Drop them."""
    for name in ("failure_revisions", "failures"):
        op.drop_table(name)
