"""``store.url`` -> the URL of an asynchronous SQLAlchemy driver, or a refusal that says what to write instead.

Comes in from `proxy.config.settings`, goes out to `proxy.store.database`. The password of a URL is never part of a message.
"""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from proxy.errors import ConfigError

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_EXPECTED = "expected sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE"


def store_url(text: str, source: str = "config.yaml") -> URL:
    """The URL with its asynchronous driver. `source` is the file named in a refusal. Raises `ConfigError`."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the library's message quotes the whole URL, password and all
        raise ConfigError(source, "store.url", f"is not a database URL; {_EXPECTED}") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ConfigError(source, "store.url", f"unknown database or driver {url.drivername!r}; {_EXPECTED}")
    module = driver.partition("+")[2]
    if find_spec(module) is None:
        wanted = "pip install 'groundwire[postgres]'" if module == "asyncpg" else f"pip install {module}"
        raise ConfigError(source, "store.url", f"{url.drivername} needs the driver {module}, which is not installed: {wanted}")
    if driver.startswith("sqlite") and (url.host or url.username):
        raise ConfigError(
            source, "store.url", f"a SQLite URL has three slashes before a relative path, four before an absolute; {_EXPECTED}"
        )
    if driver.startswith("postgresql") and not url.database:
        raise ConfigError(source, "store.url", f"names no database; {_EXPECTED}")
    return url.set(drivername=driver)


def without_password(message: str, url: URL) -> str:
    """`message` with the URL's password, in plain or percent-encoded form, taken out."""
    if not url.password:
        return message
    password = str(url.password)
    encoded = URL.create("x", username="u", password=password).render_as_string(hide_password=False)[len("x://u:") :].rstrip("@")
    for form in {password, encoded} - {""}:
        message = message.replace(form, "***")
    return message
