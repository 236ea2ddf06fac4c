"""Turns of conversations that their provider holds."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and its indexes."""
    op.create_table(
        "histories",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
    )
    op.create_index("histories_used_at", "histories", ["used_at"])
    op.create_index("histories_client", "histories", ["client", "used_at"])


def downgrade() -> None:
    """Drop what was created."""
    op.drop_table("histories")
