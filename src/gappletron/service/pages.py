"""The two pages for people: ``/``, which shows how the models do, and ``/docs``, which describes the endpoints.

Both are one file each, with everything in it, and load nothing from elsewhere. They hold no data: the first asks the
service for it, with the token that its reader gives.
"""

import base64
import hashlib
import json
import re
from typing import Any

from starlette.responses import Response

from gappletron.learners.run_bound import WHY

TEMPLATES = {"/": "page.html.jinja", "/docs": "docs.html.jinja"}


def render_pages(description: dict[str, Any]) -> dict[str, Response]:
    """Return the pages by their path.

    >>> sorted(render_pages({"paths": {}, "info": {"version": "1"}, "components": {"schemas": {}}}))
    ['/', '/docs']
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:  # everything else works without it
        needed = "this page needs jinja2, which the server does not have: pip install jinja2\n"
        return {path: Response(needed, 501, media_type="text/plain") for path in TEMPLATES}

    environment = Environment(
        loader=PackageLoader("gappletron.service", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    return {
        path: _make_page(environment.get_template(name).render(description=description, why=WHY))
        for path, name in TEMPLATES.items()
    }


def _make_page(text: str) -> Response:
    """Return the page with a policy that lets it run its own script, and talk to this server, and nothing else."""
    found = [hashlib.sha256(script.encode()) for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL)]
    scripts = " ".join(f"'sha256-{base64.b64encode(each.digest()).decode()}'" for each in found) or "'none'"
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
    return Response(text, media_type="text/html", headers=headers)
