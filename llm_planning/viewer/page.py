"""One HTML file with its script, its style and its data, which asks nothing of any network.

The script and the style come from `pages/`, which `web/` builds. The data are foreign: a trace may
hold any text. So they are embedded as base64 in inert elements, out of which no text can break.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEVEL = 6

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="llm-planning">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws a trace with its own script. Allow scripts to see it.</noscript>
{blocks}
<script>{script}</script>
</body>
</html>
"""


def page(name: str, *, title: str, blocks: Mapping[str, bytes], allow: Sequence[str] = ()) -> bytes:
    """The HTML of a page.

    Args:
        name: of its script and its style in `pages/`, such as "trial".
        blocks: name -> bytes that the page reads by `readBlock(name)`.
        allow: further directives of its content-security policy, such as "connect-src 'self'" of a
            page that a server sends.
    """
    folder = files("llm_planning.viewer") / "pages"
    script = (folder / f"{name}.js").read_text("utf-8").strip()
    style = (folder / f"{name}.css").read_text("utf-8").strip()
    policy = (
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "base-uri 'none'",
        "form-action 'none'",
        *allow,
    )
    return _PAGE.format(
        policy=escape("; ".join(policy)),
        title=escape(title),
        style=style,
        script=script,
        blocks="\n".join(_block(key, content) for key, content in blocks.items()),
    ).encode("utf-8", "replace")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _block(name: str, content: bytes) -> str:
    packed = base64.b64encode(gzip.compress(content, _LEVEL, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="block-{escape(name)}">{packed}</script>'
