"""Records of exchanges and the scratchpad."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables and their indexes."""
    op.create_table(
        "records",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("upstream", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("step_id", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("stream", sa.Boolean, nullable=False),
        sa.Column("duration_ms", sa.Float(53), nullable=False),
        sa.Column("prompt_tokens_before", sa.BigInteger),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.LargeBinary, nullable=False),
        sa.Column("request_body", sa.LargeBinary),
        sa.Column("answer_body", sa.LargeBinary),
    )
    op.create_index("records_created_at", "records", ["created_at"])
    op.create_index("records_run", "records", ["run_id", "id"])
    op.create_index("records_client", "records", ["client", "id"])
    op.create_table(
        "scratchpad",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("scratchpad_used_at", "scratchpad", ["used_at"])
    op.create_index("scratchpad_run", "scratchpad", ["client", "run_id"])


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("scratchpad")
    op.drop_table("records")
