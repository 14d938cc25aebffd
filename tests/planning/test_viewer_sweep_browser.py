"""The pages of a sweep in a real browser: drawn, by keyboard, in both themes and every width."""

import pytest
from command_line import invoke
from report_ledgers import PROVENANCE, result_of, trial_of, write_ledger
from viewer_browser import chromium, seen
from viewer_servers import serving
from viewer_sweeps import EXCLUDED, HOSTILE, several_worlds

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.progress_file import ProgressFile
from llm_planning.experiments.scheduler import Progress

pytestmark = pytest.mark.browser

PENDING = trial_of("too", task="minecraft-task", seed=99)
WIDTHS = (400, 1280, 3840)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser") / "sweep"
    failed = result_of(trial_of(HOSTILE, task=HOSTILE), failed=True)
    swept = [
        result_of(trial_of("too", task="mine", seed=seed, k=k), success=seed < k, calls=k)
        for seed in range(4)
        for k in (1, 3)
    ]
    write_ledger(folder, [*several_worlds(), *swept, failed], pending=[PENDING], grids=EXCLUDED)
    assert invoke("view", folder).exit_code == 0
    return folder


@pytest.fixture(scope="module")
def address(folder):
    return (folder / "pages" / "index.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_drawn_at_every_width(browser, address, width, scheme):
    with seen(browser, address, width=width, scheme=scheme) as tab:
        tab.page.wait_for_selector(".scatter circle")
        assert tab.errors == []
        assert tab.asked == [address]
        assert not tab.overflows
        assert tab.page.title() == "by-hand"
        assert tab.page.get_attribute("html", "data-theme") == scheme
        assert tab.violations() == []


def test_the_first_thing_seen_says_who_leads_how_sure_and_what_it_cost(browser, address):
    with seen(browser, address) as tab:
        card = tab.page.locator(".card", has_text="In blocksworld")
        assert card.locator("h3").inner_text() == "uct leads"
        assert "66.7% [30%, 90.3%] success in 6 trials" in card.inner_text()
        assert card.locator(".verdict").inner_text() == "not settled"
        assert "points on too" in card.inner_text()
        assert "Cost: 385 [" in card.inner_text()
        assert card.bounding_box()["y"] < 900


def test_foreign_texts_stay_texts(browser, address):
    with seen(browser, address) as tab:
        assert HOSTILE in tab.page.locator(".ranking").inner_text()
        assert tab.page.locator("main img").count() == 0
        assert tab.page.title() == "by-hand"
        policy = "document.querySelector('meta[http-equiv]').content"
        assert "default-src 'none'" in tab.page.evaluate(policy)
        # A script that got in would not run.
        tab.page.evaluate(
            "(() => { const one = document.createElement('script');"
            "one.textContent = 'document.title = \"owned\"'; document.body.append(one); })()"
        )
        assert tab.page.title() == "by-hand"


def test_the_map_says_why_a_cell_is_empty(browser, address):
    with seen(browser, address) as tab:
        heat = tab.page.locator(".heat").first
        row = heat.locator("tr", has_text="cot").first
        assert (
            row.inner_text().split("\n")[-1] == "cannot plan here" or "cannot" in row.inner_text()
        )
        assert "excluded" in row.inner_text()
        tab.page.click("summary")
        reasons = tab.page.locator("details li").all_inner_texts()
        assert 'the sweep excludes cot in blocksworld: {"planner": ["cot"]}' in reasons


def test_a_cell_leads_to_its_trials(browser, address):
    with seen(browser, address) as tab:
        tab.page.locator(".heat").first.locator("tr", has_text="uct").locator(
            "button"
        ).first.click()
        status = tab.page.locator("#trials [role=status]")
        assert status.inner_text().startswith("1 to 6 of 6 trials, chosen from ")
        assert tab.page.input_value("#filter-planner") == "uct"
        assert tab.page.input_value("#filter-domain") == "blocksworld"
        assert tab.page.evaluate("document.activeElement.id") == "trials"
        # The address holds the filters: a reload shows the same rows.
        tab.page.reload()
        tab.page.wait_for_selector("#trials table")
        assert tab.page.input_value("#filter-planner") == "uct"
        tab.page.click("text=Clear")
        assert status.inner_text().startswith("1 to 46 of 46") or "46" in status.inner_text()
        assert tab.errors == []


def test_trials_are_filtered_and_ordered(browser, address):
    with seen(browser, address) as tab:
        page = tab.page
        page.select_option("#filter-outcome", "no success")
        page.click("button.heading:has-text('calls')")
        assert page.get_attribute("th[aria-sort]", "aria-sort") == "ascending"
        heads = page.locator("#trials thead th").all_inner_texts()
        place = next(i for i, head in enumerate(heads) if head.startswith("calls"))
        cells = page.locator(f"#trials tbody td:nth-child({place + 1})")
        calls = [int(text) for text in cells.all_inner_texts()]
        assert calls == sorted(calls)
        page.click("button.heading:has-text('calls')")
        assert page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
        page.fill("#search", "no such text")
        assert page.inner_text("#trials [role=status]").startswith("No trial of")
        page.fill("#search", "valueerror")
        page.select_option("#filter-outcome", "")
        assert page.inner_text("#trials [role=status]").startswith("1 to 1 of 1 trial, chosen")


def test_groups_are_told_apart_where_settings_are_swept(browser, address):
    with seen(browser, address) as tab:
        assert "Together are k (2 values)" in tab.page.inner_text(".note")
        tab.page.select_option("#by", "1")
        names = tab.page.locator(".ranking tbody tr").all_inner_texts()
        assert any(name.startswith("too\t1") for name in names)
        assert any(name.startswith("too\t3") for name in names)
        assert "Together are" not in tab.page.inner_text(".note")


def test_a_link_leads_to_the_trial(browser, address):
    with seen(browser, address) as tab:
        link = tab.page.locator("#trials a").first
        key = link.get_attribute("href")
        assert key.startswith("trials/")
        link.click()
        tab.page.wait_for_load_state()
        assert tab.page.url.endswith(key)
        assert tab.errors == []


def test_the_keyboard_alone_does(browser, address):
    with seen(browser, address) as tab:
        keyboard = tab.page.keyboard
        keyboard.press("Tab")
        assert tab.focused() == ["BUTTON", "Use dark colours"]
        keyboard.press("Enter")
        assert tab.page.get_attribute("html", "data-theme") == "dark"
        names = []
        for _ in range(200):
            keyboard.press("Tab")
            tag, name = tab.focused()
            names.append(name)
            if tag == "BUTTON" and "%" in name:
                break
        keyboard.press("Enter")
        assert tab.page.evaluate("document.activeElement.id") == "trials"
        for _ in range(40):
            keyboard.press("Tab")
            if tab.focused()[0] == "A":
                break
        keyboard.press("Enter")
        tab.page.wait_for_url("**/trials/*.html")


def test_the_live_page_follows_a_sweep(browser, tmp_path):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=2), pending=[PENDING])
    with (
        Ledger.resume(folder, PROVENANCE) as ledger,
        ProgressFile(folder) as file,
        serving(folder) as server,
        seen(browser, server.url, scheme="dark") as tab,
    ):
        page = tab.page
        page.wait_for_selector("text=12 of 13 trials")
        assert page.url == f"http://127.0.0.1:{server.port}/"
        load = PoolLoad(running=5, waiting=2, written_tokens=900)
        file(Progress(total=13, done=12, running=1, seconds=12.0, load=load))
        page.wait_for_selector("text=5, 2 waiting", timeout=60_000)
        assert page.inner_text("header .verdict") == "running"
        ledger.record(result_of(PENDING, failed=True), attempt=1, final=True)
        page.wait_for_selector("text=13 of 13 trials", timeout=60_000)
        assert page.inner_text("header .verdict") == "finished"
        assert "ValueError: no" in page.inner_text(".errors")
        assert tab.violations() == []
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert not tab.overflows
        assert tab.errors == []
        assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in tab.asked)
        with page.context.expect_page() as opened:
            page.locator("a", has_text="open").first.click()
        opened.value.wait_for_load_state()
        assert "/trials/" in opened.value.url
        server.end()
        page.wait_for_selector("text=The command that shows this page has ended", timeout=60_000)
