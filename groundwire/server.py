"""The proxy as an ASGI application, to be served by a process of one's own."""

from proxy.app import App
from proxy.config.settings import Settings, load_settings
from proxy.errors import ConfigError

__all__ = [
    "App",
    "ConfigError",
    "Settings",
    "load_settings",
]
