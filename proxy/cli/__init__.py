"""The commands: serving is `proxy.server.startup`; here are `explain`, `knowledge`, `tail` and `report`, and what they share."""
