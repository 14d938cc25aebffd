"""Pictures of tables, as matplotlib wrote them."""

import io

import pytest
from PIL import Image
from report_ledgers import result_of, trial_of, write_ledger

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import report
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.plots import PlotError, draw, picture
from llm_planning.experiments.runs import read_runs


def too_report(folder, table, results):
    write_ledger(folder, results)
    with Ledger.open(folder) as ledger:
        return report(find_paper("too"), table, read_runs(ledger))


@pytest.fixture(scope="module")
def table2(tmp_path_factory):
    results = [result_of(trial_of("cot", seed=seed)) for seed in range(2)]
    results += [
        result_of(trial_of(planner, seed=seed), calls=calls + seed, success=True)
        for planner, calls in (("tot-mcts", 100), ("too", 200))
        for seed in range(2)
    ]
    return too_report(tmp_path_factory.mktemp("table2") / "sweep", "table2", results)


@pytest.fixture(scope="module")
def figure3(tmp_path_factory):
    results = [
        result_of(
            trial_of(planner, task="craft-a-diamond-pickaxe", seed=seed, k=k, d=d, iter=i),
            calls=k * d * i + seed,
            success=k == 3,
        )
        for planner in ("too", "tot-mcts")
        for k in (1, 3)
        for d in (2, 4)
        for i in (1, 3)
        for seed in range(2)
    ]
    return too_report(tmp_path_factory.mktemp("figure3") / "sweep", "figure3", results)


def test_a_png_is_a_picture_with_something_on_it(table2):
    image = Image.open(io.BytesIO(picture(table2, ".PNG")))
    assert image.format == "PNG"
    assert image.width >= 900
    assert image.height >= 450
    colours = {colour: count for count, colour in image.convert("RGB").getcolors(2**24)}
    assert colours[31, 119, 180] > 1000  # bars of what was measured
    assert colours[154, 154, 154] > 1000  # and of what was published
    assert max(colours.values()) < 0.98 * image.width * image.height


def test_an_svg_names_what_it_shows_and_is_the_same_every_time(figure3):
    first = picture(figure3, ".svg")
    assert first == picture(figure3, ".svg")
    assert first.startswith(b"<?xml")
    for label in (b"ToT-MCTS", b"planning tokens", b"predicted success rate", b"iter=3"):
        assert b"<!-- " + label in first


def test_a_pdf_is_a_pdf(figure3):
    assert picture(figure3, ".pdf").startswith(b"%PDF-")


def test_bars_show_published_and_measured_figures(table2):
    axes = draw(table2).axes[0]
    widths = [[bar.get_width() for bar in bars] for bars in axes.containers if len(bars) == 4]
    assert widths == [[1.0, 30.0, 600.0, 900.0], [1.0, 0.0, 100.5, 200.5]]
    assert axes.get_xscale() == "log"


def test_points_lie_where_they_were_measured(figure3):
    axes = draw(figure3).axes[0]
    points = {tuple(at) for marks in axes.collections for at in marks.get_offsets().tolist()}
    # k = 3, d = 4, iter = 3: 36 and 37 calls of 110 tokens, all successful.
    assert (36.5 * 110, 1.0) in points
    assert (2.5 * 110, 0.0) in points
    assert axes.get_xlabel() == "planning tokens"
    assert axes.get_ylabel() == "predicted success rate"


def test_marks_differ_by_method_k_d_and_iter(figure3):
    legend = draw(figure3).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        *("ToO", "ToT-MCTS"),
        *("d=2", "d=4"),
        *("k=1", "k=3"),
        *("iter=1", "iter=3"),
    ]
    axes = draw(figure3).axes[0]
    looks = {
        (
            tuple(marks.get_facecolor()[0].tolist()),
            float(marks.get_sizes()[0]),
            len(marks.get_paths()[0].vertices),
        )
        for marks in axes.collections
        if len(marks.get_offsets()) == 1 and hasattr(marks, "get_sizes") and len(marks.get_sizes())
    }
    assert len(looks) == 2 * 2 * 2 * 2


def test_lines_join_the_rows_that_look_alike(tmp_path):
    folder = tmp_path / "configs" / "p"
    folder.mkdir(parents=True)
    (folder / "paper.yaml").write_text("title: P\ncitation: c")
    (folder / "f1.published.yaml").write_text(
        "title: t\n"
        "columns: [{key: c, label: calls, measure: {mean: calls}, paper: drawn}]\n"
        "rows: [{each: {planner: all, settings.k: all}}]\n"
        "plot: {kind: lines, x: settings.k, y: c, colour: planner}\n"
    )
    results = [
        result_of(trial_of(planner, k=k), calls=k * k)
        for planner in ("too", "tot-mcts")
        for k in (3, 1, 2)
    ]
    write_ledger(tmp_path / "sweep", results)
    with Ledger.open(tmp_path / "sweep") as ledger:
        made = report(find_paper("p", tmp_path / "configs"), "f1", read_runs(ledger))
    axes = draw(made).axes[0]
    drawn = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xydata()) == 3]
    assert drawn == [[[1, 1], [2, 4], [3, 9]]] * 2
    assert axes.get_xlabel() == "k"


def test_nothing_to_draw(tmp_path):
    failed = [result_of(trial_of("too"), failed=True)]
    with pytest.raises(PlotError, match="too table2: nothing was measured"):
        picture(too_report(tmp_path / "sweep", "table2", failed), ".png")


def test_no_such_picture(table2):
    with pytest.raises(PlotError, match=r"'\.gif'; known: \.png, \.svg, \.pdf"):
        picture(table2, ".gif")
