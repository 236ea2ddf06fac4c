"""The tools that runs have been shown, and what tool calls taught."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables and their indexes."""
    op.create_table(
        "tool_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("names", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
    )
    op.create_index("tool_runs_used_at", "tool_runs", ["used_at"])
    op.create_table(
        "tool_outcomes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("tool_key", sa.Text, nullable=False),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("query_hash", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("weight", sa.Float(53), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
    )
    op.create_index("tool_outcomes_created_at", "tool_outcomes", ["created_at"])
    op.create_index("tool_outcomes_client", "tool_outcomes", ["client", "created_at"])
    op.create_index("tool_outcomes_tool", "tool_outcomes", ["tool_key", "client"])
    op.create_table(
        "tool_outcome_versions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.Float(53), nullable=False),
    )
    op.create_index("tool_outcome_versions_changed_at", "tool_outcome_versions", ["changed_at"])


def downgrade() -> None:
    """Drop the three tables."""
    op.drop_table("tool_outcome_versions")
    op.drop_table("tool_outcomes")
    op.drop_table("tool_runs")
