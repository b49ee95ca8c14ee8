"""The two pages for people: ``/``, which shows how the models do, and ``/docs``, which describes the endpoints.

Both are one file each, with everything in it, and load nothing from elsewhere. They hold no data: the first asks the
service for it, with the token that its reader gives.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any, NamedTuple

__all__ = ["Page", "rendered"]


class Page(NamedTuple):
    """A page, and the headers that it is sent with."""

    content: bytes
    headers: dict[str, str]


def rendered(description: dict[str, Any]) -> dict[str, Page]:
    """The pages by their path.

    >>> sorted(rendered({"paths": {}, "info": {"version": "1"}, "components": {"schemas": {}}}))
    ['/', '/docs']
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gappletron.service", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    values = {"description": description}
    return {
        "/": _page(environment.get_template("page.html.jinja").render(values)),
        "/docs": _page(environment.get_template("docs.html.jinja").render(values)),
    }


def _page(text: str) -> Page:
    """The page with a policy that lets it run its own script, and talk to this server, and nothing else."""
    scripts = " ".join(
        f"'sha256-{_digest(script)}'" for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    )
    scripts = scripts or "'none'"
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Page(text.encode(), headers)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
