"""The pages' own files: style, scripts, the vendored chart library. Read once, served from memory, cached by browsers for ever.

Their address carries a hash of them all, so that another version is another address, also for what one script imports from another. The
style stands in the page itself, as nothing is painted before it is there and asking for it took as long as all the rest; the pages'
Content-Security-Policy names its hash.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from proxy.errors import NotFound

_TYPES = {"js": "text/javascript; charset=utf-8", "svg": "image/svg+xml", "txt": "text/plain"}
_STYLES = ("dashboard.css", "parts.css", "uplot-1.6.32.min.css")
_COMMENT, _SPACE = re.compile(r"/\*.*?\*/", re.DOTALL), re.compile(r"\s+")


class StaticFiles:
    """The files of ``proxy/admin/static``."""

    def __init__(self) -> None:
        folder = files("proxy.admin") / "static"
        kept = sorted((f for f in folder.iterdir() if f.name.rpartition(".")[2] in _TYPES), key=lambda file: file.name)
        self._files = {file.name: file.read_bytes() for file in kept}
        whole = sha256()
        for name, content in self._files.items():
            whole.update(name.encode() + b"\0" + content)
        self.style = "".join(_smaller((folder / name).read_text("utf-8")) for name in _STYLES)
        """Of every page."""
        whole.update(self.style.encode())
        self.version = whole.hexdigest()[:12]

    def path(self, name: str) -> str:
        """Where a file is served. Raises `KeyError` for one that is not there."""
        _ = self._files[name]
        return f"/dashboard/static/{self.version}/{name}"

    @property
    def style_source(self) -> str:
        """What Content-Security-Policy calls `style`."""
        return f"'sha256-{b64encode(sha256(self.style.encode()).digest()).decode()}'"

    async def serve(self, request: Request) -> Response:
        """One file; it tells nothing about anybody, and the page to sign in needs it."""
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None:
            raise NotFound("no such file; load the page again")
        kind = _TYPES[name.rpartition(".")[2]]
        headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff", "content-type": kind}
        return Response(content, headers=headers)


def _smaller(style: str) -> str:
    """Without comments, and with one space where there were several."""
    return _SPACE.sub(" ", _COMMENT.sub("", style)).strip()


STATIC = StaticFiles()
"""Of this installation; never changed."""
