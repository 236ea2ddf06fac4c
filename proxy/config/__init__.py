"""config.yaml and the environment as checked settings; who may use which route (`client_keys`), and which paths it serves (`paths`)."""
