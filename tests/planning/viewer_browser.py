"""Pages in Debian's Chromium, as their tests see them; no test module itself."""

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"
_SERIOUS = {"serious", "critical"}


@dataclass
class Seen:
    """A page, with what it told and asked.

    Attributes:
        page: Playwright's.
        errors: of its console, and exceptions that nothing caught.
        asked: addresses that it asked beside its own.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def overflows(self):
        """Whether the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")

    def violations(self):
        """What axe-core calls serious or critical."""
        if not AXE.exists():
            pytest.skip("axe-core is missing: npm ci in web/")
        self.page.evaluate(AXE.read_text())
        violations = self.page.evaluate("axe.run().then(found => found.violations)")
        return [
            f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
            for violation in violations
            if violation["impact"] in _SERIOUS
        ]

    def focused(self):
        """What has the keyboard's focus: its tag, its label or text."""
        return self.page.evaluate(
            "[document.activeElement.tagName, document.activeElement.getAttribute('aria-label')"
            " ?? document.activeElement.textContent]"
        )


@contextmanager
def chromium():
    """Chromium for some tests, without a network."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"there is no {CHROMIUM}")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def seen(browser, address, *, width=1280, height=900, scheme="light", **more):
    """A page in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **more
    )
    tab = Seen(context.new_page())
    tab.page.on(
        "console", lambda message: message.type == "error" and tab.errors.append(message.text)
    )
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("request", lambda request: tab.asked.append(request.url))
    tab.page.goto(address)
    tab.page.wait_for_selector("main h1")
    yield tab
    context.close()
