"""The pages in Debian's chromium: no errors, no violations, by mouse and by keyboard."""

import re
import shutil
from pathlib import Path

import pytest
from traces import EVIL, RUNS, asked, counted, learning, lines_of, run, written

from llm_planning.viewer.reading import read_trace
from llm_planning.viewer.trial_page import trial_page

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A trace of each planner, and one with a model's questions."""
    folder = tmp_path_factory.mktemp("traces")
    traces = {name: run(name, folder) for name in RUNS}
    (folder / "other").mkdir()
    traces["other"] = run("too", folder / "other", "--set", "k=1")
    traces["learning"] = written(folder / "learning.jsonl", learning())
    return traces | {"asked": written(folder / "asked.jsonl", asked())}


@pytest.fixture(scope="module")
def browser(traces):
    """Chromium, as Debian ships it. Playwright has a loop, in which no run can have its own."""
    assert traces
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is missing: make browser")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens the page of traces; the test fails if the page says anything on its console."""
    complaints, contexts = [], []

    def opened(*traces, width=1280, height=900, theme="light", bypass=False, address=""):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, bypass_csp=bypass
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith("file:") or complaints.append(request.url),
        )
        path = tmp_path / "page.html"
        path.write_bytes(trial_page([read_trace(trace) for trace in traces]))
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def violations(page):
    page.evaluate(AXE.read_text("utf-8"))
    violations = page.evaluate("() => axe.run().then((result) => result.violations)")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in violations
        if violation["impact"] in GRAVE
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*RUNS, "asked", "learning"])
def test_every_planners_page_is_accessible(show, traces, name, theme):
    if not AXE.exists():
        pytest.skip("axe-core is missing: npm --prefix web ci")
    page = show(traces[name], theme=theme, bypass=True)
    for summary in page.locator("details:not([open]) > summary").all()[:8]:
        if summary.is_visible():
            summary.click()
    page.wait_for_timeout(100)
    assert violations(page) == []


@pytest.mark.parametrize("width", [400, 1280, 3840])
def test_nothing_is_wider_than_the_screen(show, traces, width):
    for name in ("too", "uct", "asked", "xenon"):
        page = show(traces[name], width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_screen_answers_what_was_planned_whether_it_worked_and_its_cost(show, traces):
    page = show(traces["too"])
    cards = page.locator(".cards")
    assert cards.bounding_box()["y"] < 300
    assert "Goal reached" in page.locator(".title").inner_text()
    assert "cook 1 cooked_porkchop" in cards.inner_text()
    assert "6 real steps" in cards.inner_text()
    assert "Simulations" in cards.inner_text()


def test_a_text_of_a_trace_stays_a_text(show, traces):
    page = show(traces["asked"])
    assert EVIL in page.locator("h1").text_content()
    assert page.locator("img").count() == 0


def drawn(page):
    """Shares of the canvas's pixels that differ from its ground."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector(".tree canvas");
          const copy = document.createElement("canvas");
          Object.assign(copy, {width: canvas.width, height: canvas.height});
          const pen = copy.getContext("2d", {willReadFrequently: true});
          pen.drawImage(canvas, 0, 0);
          const {data} = pen.getImageData(0, 0, copy.width, copy.height);
          const ground = data.slice(0, 3).join();
          let others = 0;
          for (let at = 0; at < data.length; at += 4)
            others += data.slice(at, at + 3).join() !== ground;
          return others / (data.length / 4);
        }"""
    )


def test_the_tree_is_drawn_and_replayed(show, traces):
    page = show(traces["uct"])
    whole = drawn(page)
    assert whole > 0.01
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(100)
    assert drawn(page) < whole / 3
    assert "moment=0" in page.url
    for _ in range(3):
        page.get_by_role("button", name=re.compile("One moment on")).click()
    page.wait_for_timeout(100)
    assert "moment=3" in page.url
    assert "4 of" in page.locator(".moment").inner_text()


def test_keys_alone_walk_the_tree(show, traces):
    page = show(traces["too"])
    canvas = page.get_by_role("application")
    for _ in range(30):
        page.keyboard.press("Tab")
        if canvas.evaluate("(one) => one === document.activeElement"):
            break
    page.keyboard.press("ArrowRight")
    panel = page.get_by_label("The selected node")
    panel.get_by_role("heading", name="kill 1 pig").wait_for()
    page.keyboard.press("ArrowRight")
    panel.get_by_role("heading", name="mine 3 oak_log").wait_for()
    assert "reachability" in panel.inner_text()
    assert "found feasible" in panel.inner_text()
    page.keyboard.press("ArrowLeft")
    panel.get_by_role("heading", name="kill 1 pig").wait_for()
    page.keyboard.press("ArrowDown")
    panel.get_by_role("heading", name="mine 3 oak_log").wait_for()
    page.keyboard.press("[")
    page.locator(".moment", has_text="17 of 18").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("furnace")
    page.keyboard.press("Enter")
    panel.get_by_role("heading", name="craft 1 furnace").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    panel.get_by_role("heading", name="start").wait_for()


def test_the_mouse_selects_moves_and_folds(show, traces):
    page = show(traces["drip"])
    canvas, heading = page.locator(".inner canvas"), page.locator(".inner .panel h3")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert heading.inner_text().endswith("goal")
    places = [(x, y) for x in range(120, 400, 40) for y in range(60, int(box["height"]), 12)]
    for x, y in places:
        page.mouse.click(box["x"] + x, box["y"] + y)
        if "stack c e" in heading.inner_text():
            break
    assert "closed" in page.locator(".inner .panel").inner_text()
    caption = page.locator(".inner .canvas p")
    page.mouse.dblclick(box["x"] + x, box["y"] + y)
    assert caption.text_content().endswith("stack c e folded")
    # Where it is dragged to, it is found again.
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + x + 60, box["y"] + y + 40, steps=4)
    page.mouse.up()
    page.mouse.dblclick(box["x"] + x + 60, box["y"] + y + 40)
    assert caption.text_content().endswith("stack c e unfolded")


def test_an_address_leads_back_to_the_node_and_the_moment(show, traces):
    page = show(traces["too"])
    page.get_by_role("button", name="kill 1 pig").first.click()
    page.get_by_role("heading", name="kill 1 pig").wait_for()
    assert "node=1" in page.url
    again = show(traces["too"], address="#node=2&moment=5")
    again.get_by_role("heading", name="mine 3 oak_log").wait_for()
    assert "6 of" in again.locator(".moment").inner_text()
    nowhere = show(traces["too"], address="#node=99999&moment=99999&x=%00")
    nowhere.get_by_role("heading", name="start").wait_for()


def test_a_node_has_the_questions_that_were_asked_for_it(show, traces, tmp_path):
    page = show(traces["asked"])
    panel = page.get_by_label("The selected node")
    panel.get_by_role("heading", name="start").wait_for()
    here = "Asked here: 2 questions, 55 tokens read, 30 of them cached, 7 written, 300 ms"
    assert here in panel.inner_text()
    assert panel.locator("details.question").count() == 1
    panel.get_by_text("1 of them about its actions").click()
    about = panel.locator("details.question summary").nth(1)
    about.wait_for()
    assert about.inner_text().startswith(f"prior · {EVIL[:9]}")
    page = show(traces["asked"], address="#node=1")
    page.get_by_text("About the action that leads here").wait_for()
    panel = page.get_by_label("The selected node")
    assert "here: 1 question, 5 tokens read, 0 of them cached, 0 written" in panel.inner_text()
    assert "Asked here" not in panel.inner_text()


def test_a_question_tells_its_parts_apart(show, tmp_path):
    events = counted(asked(), cached="Goal: </")
    page = show(written(tmp_path / "counted.jsonl", events))
    page.locator("#questions details").first.locator("summary").click()
    body = page.locator("#questions details").first
    body.locator("mark.fixed").wait_for()
    total, cached = (events[4][key] for key in ("prompt_tokens", "cached_tokens"))
    assert "20 fixed" in body.inner_text()
    assert f"{cached} of all, cached" in body.inner_text()
    assert f"{total - cached} new" in body.inner_text()
    prompt = body.locator(".prompt")
    assert prompt.locator("mark.cached").all_text_contents() == [f"Goal: {EVIL}"[:8]]
    assert prompt.locator("mark.fresh").all_text_contents() == [f"Goal: {EVIL}"[8:]]
    assert "not known" not in body.inner_text()
    scored = page.locator("#questions details.question").nth(1)
    scored.locator("summary").click()
    scored.get_by_text(
        "Its 2 requests to the model read 5 tokens in all, 0 of them cached"
    ).wait_for()
    assert "3 new" in scored.inner_text()


def test_where_the_cached_part_ends_is_not_guessed(show, tmp_path):
    events = asked()
    del events[5]["shared"]
    page = show(written(tmp_path / "unknown.jsonl", events))
    questions = page.locator("#questions details.question")
    questions.first.locator("summary").click()
    questions.first.get_by_text(
        f'Where the cached part ends in the text is not known: the tokenizer of "{EVIL[:9]}'
    ).wait_for()
    prompt = questions.first.locator(".prompt")
    assert prompt.locator("mark.cached").count() == prompt.locator("mark.fresh").count() == 0
    assert f"Goal: {EVIL}" in prompt.inner_text()
    questions.nth(1).locator("summary").click()
    questions.nth(1).get_by_text("All requests for its choices read 5 tokens in all").wait_for()
    assert questions.nth(1).locator(".shares").count() == 0


def test_characters_beyond_the_first_plane_count_once(show, tmp_path):
    events = counted(asked("🐄🐄🐄"), cached="Goal: 🐄🐄")
    page = show(written(tmp_path / "t.jsonl", events))
    page.locator("#questions details.question summary").first.click()
    marked = page.locator("#questions mark.cached")
    marked.wait_for()
    assert marked.all_text_contents() == ["Goal: 🐄🐄"]


def test_a_damaged_trace_says_so_on_the_page(show, traces, tmp_path):
    path = tmp_path / "cut.jsonl"
    content = traces["uct"].read_bytes()
    path.write_bytes(content[: len(content) // 2])
    page = show(path)
    assert "It is cut off" in page.locator(".head").inner_text()
    assert drawn(page) > 0.005


def test_two_traces_stand_side_by_side_with_their_first_difference(show, traces):
    page = show(traces["too"], traces["other"], width=1600)
    left, right = page.locator("article").all()
    assert left.bounding_box()["x"] < right.bounding_box()["x"]
    assert "First difference" in page.locator(".first-difference").inner_text()
    assert page.locator(".ticks .differs").count() == 2
    assert page.get_by_role("application").count() == 2


def test_beliefs_memories_and_graphs_have_their_parts(show, traces):
    page = show(traces["asked"])
    assert "reflection" in page.locator("#memories").inner_text()
    assert "plains" in page.locator("#belief").inner_text()
    assert "Requests in flight" in page.locator("#engine").inner_text()
    page = show(traces["xenon"])
    page.wait_for_selector("#graph .dag svg")
    assert "Predicted to need" in page.locator("#graph").inner_text()


def edges(page):
    """The lines of the learnt graph's picture: what each says, and how it is known."""
    return {
        (edge.text_content(), edge.get_attribute("class").split()[1])
        for edge in page.locator("#graph .dag path").all()
    }


def test_the_learnt_graph_follows_the_replay_and_tells_what_was_wrong(show, traces):
    page = show(traces["learning"])
    words = page.locator("#graph .moment")
    page.wait_for_selector("#graph .dag svg")
    # Only the last belief of the bow is learnt; what it was believed to need before is marked.
    assert edges(page) == {
        ("bow needs 2 stick: learnt", "learnt"),
        ("stick needs 2 logs: predicted", "predicted"),
        (f"bow was believed to need {EVIL}: wrong", "wrong"),
    }
    assert page.locator("#graph .dag .mark.wrong").text_content() == "✗"
    assert words.inner_text().startswith("✓ bow needs 2 stick: learnt. It is obtained by craft.")
    assert "Believed before, and wrong: </script>" in words.inner_text()
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    assert words.inner_text().startswith("? bow needs 3 stick, 1 ")
    assert ("bow needs 3 stick: predicted", "predicted") in edges(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert words.inner_text().startswith("✗ bow needs 3 stick")
    assert ("bow was believed to need 3 stick: wrong", "wrong") in edges(page)
    page.get_by_text("The learnt graph changes: bow wrong.").wait_for()


def test_what_the_picture_of_the_graph_shows_is_chosen_by_keyboard(show, traces):
    page = show(traces["learning"])
    choice = page.locator("#graph select")
    choice.focus()
    page.keyboard.type("stick")
    assert edges(page) == {("stick needs 2 logs: predicted", "predicted")}
    choice.select_option("all")
    assert "2 learnt, 2 predicted, 0 wrong" in page.locator("#graph .moment").inner_text()
    assert page.locator("#graph .dag rect").count() == 4
    # What the picture tells by lines, the table tells by words.
    row = page.locator("#graph tr", has_text="stick").filter(has_text="2 logs")
    assert row.count() >= 1


def test_every_real_step_of_xenon_is_on_its_page(show, traces):
    page = show(traces["xenon"])
    steps = sum(line["type"] == "execution" for line in lines_of(traces["xenon"]))
    assert steps > 0
    page.wait_for_selector("#steps tbody tr")
    assert f"{steps} real step" in page.locator(".cards").inner_text()
    assert page.locator("#steps tbody tr").count() == steps
    assert page.get_by_role("slider").count() == 1
