"""Run by Alembic: migrates the connection that `proxy.store.migrate` hands over, inside that connection's transaction."""

from alembic import context

from proxy.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
