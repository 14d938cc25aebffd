"""Pictures of tables, as matplotlib wrote them."""

import io
import re

import pytest
from PIL import Image
from report_ledgers import report_of, resources, result_of, trial_of, write_ledger

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import report, text_line
from llm_planning.experiments.papers import PublishedError, find_paper
from llm_planning.experiments.plots import PlotError, draw, picture
from llm_planning.experiments.runs import read_runs


def too_report(folder, table, results):
    write_ledger(folder, results)
    with Ledger.open(folder) as ledger:
        return report(find_paper("too"), table, read_runs(ledger))


@pytest.fixture(scope="module")
def table2(tmp_path_factory):
    results = [result_of(trial_of("cot", seed=seed), **resources(planning=1)) for seed in range(2)]
    results += [
        result_of(trial_of(planner, seed=seed), success=True, **resources(planning=calls + seed))
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
            predicted_success=True,
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
    for label in (b"ToT-MCTS", b"planning tokens", b"success rate", b"iter=3"):
        assert b"<!-- " + label in first


def test_a_pdf_is_a_pdf(table2):
    assert picture(table2, ".pdf").startswith(b"%PDF-")


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
    assert axes.get_ylabel() == "success rate"


def test_marks_differ_by_method_k_d_and_iter(figure3):
    axes = draw(figure3).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        *("ToO", "ToT-MCTS"),
        *("d=2", "d=4"),
        *("k=1", "k=3"),
        *("iter=1", "iter=3"),
    ]
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
    file = """
        title: t
        columns: [{key: c, label: calls, measure: {mean: calls}, paper: drawn}]
        rows: [{each: {planner: all, settings.k: all}}]
        plot: {kind: lines, x: settings.k, y: c, colour: planner}
        """
    results = [
        result_of(trial_of(planner, k=k), calls=k * k)
        for planner in ("too", "tot-mcts")
        for k in (3, 1, 2)
    ]
    axes = draw(report_of(tmp_path, file, results)).axes[0]
    drawn = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xydata()) == 3]
    assert drawn == [[[1, 1], [2, 4], [3, 9]]] * 2
    assert axes.get_xlabel() == "k"


def test_texts_beside_marks_are_shared_where_these_cover_each_other(tmp_path):
    file = """
        title: t
        columns:
          - {key: c, label: calls, measure: {mean: calls}, paper: drawn}
          - {key: s, label: score, measure: {mean: metrics.score}, paper: drawn}
        rows: [{each: {planner: all, settings.k: all}}]
        plot: {kind: points, x: s, y: c, colour: planner, beside: settings.k}
        """
    results = [
        result_of(trial_of(planner, k=k), calls=calls, score=score)
        for planner, score in (("too", 1), ("tot-mcts", 9))
        for k, calls in ((1, 5), (2, 5), (3, 50))
    ]
    axes = draw(report_of(tmp_path, file, results)).axes[0]
    beside = {(text.xy, text.get_text()) for text in axes.texts}
    assert beside == {((x, y), text) for x in (1, 9) for y, text in ((5, "1, 2"), (50, "3"))}
    assert axes.get_legend().get_title().get_text() == "beside a mark: k"


def test_nothing_to_draw(tmp_path):
    failed = [result_of(trial_of("too"), failed=True)]
    with pytest.raises(PlotError, match="too table2: nothing was measured"):
        picture(too_report(tmp_path / "sweep", "table2", failed), ".png")


def test_no_such_picture(table2):
    with pytest.raises(PlotError, match=r"'\.gif'; known: \.png, \.svg, \.pdf"):
        picture(table2, ".gif")


CURVES = """
title: t
names: {too: ToO}
columns:
  - {key: late, label: late, measure: {mean: metrics.late}, x: 10}
  - {key: early, label: early, measure: {mean: metrics.early}, paper: drawn, x: 5}
  - {key: calls, label: calls, measure: {mean: calls}, paper: absent}
rows:
  - {label: A, where: {planner: too}, published: {late: 0.55}}
  - {label: B, where: {planner: tot-mcts}}
"""


def curves_report(folder, plot, *, table=CURVES, seeds=2):
    """Two agents whose values at 5 and 10 differ by seed for the first alone."""
    results = [
        result_of(trial_of(planner, seed=seed), early=early + seed * step, late=late + seed * step)
        for planner, early, late, step in (("too", 0.0, 0.4, 0.2), ("tot-mcts", 0.1, 0.3, 0.0))
        for seed in range(seeds)
    ]
    return report_of(folder, f"{table}plot: {plot}\n", results)


def drawn_lines(axes):
    return [line.get_xydata().ravel().round(6).tolist() for line in axes.lines]


def test_curves_go_through_the_columns_in_the_order_of_their_x(tmp_path):
    measured = curves_report(
        tmp_path,
        "{kind: curves, x: steps, y: EGA, colour: planner, panels: "
        "[{title: both}, {title: A late, where: {planner: too}, columns: [late]}]}",
    )
    both, late = draw(measured).axes
    assert drawn_lines(both) == [[5, 0.1, 10, 0.5], [5, 0.1, 10, 0.3]]
    assert drawn_lines(late) == [[10, 0.5]]
    assert [axes.get_title() for axes in (both, late)] == ["both", "A late"]
    assert (both.get_xlabel(), both.get_ylabel()) == ("steps", "EGA")
    assert [text.get_text() for text in both.get_legend().get_texts()] == [
        *("ToO", "tot-mcts", "paper")
    ]
    assert late.lines[0].get_color() == both.lines[0].get_color() != both.lines[1].get_color()


def test_curves_show_intervals_and_what_is_published(tmp_path):
    axes = draw(curves_report(tmp_path, "{kind: curves, x: steps, y: EGA}")).axes[0]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    half = 12.706205 * 0.1  # Student's t of two values that are 0.2 apart
    assert (band.min(), band.max()) == pytest.approx((0.1 - half, 0.5 + half), abs=1e-5)
    points = [tuple(at) for marks in axes.collections[1:] for at in marks.get_offsets().tolist()]
    assert (10.0, 0.55) in points
    # Without a field that colours them, rows are called by their labels.
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["A", "B", "paper"]


def test_a_curve_of_single_runs_has_no_band(tmp_path):
    axes = draw(curves_report(tmp_path, "{kind: curves, x: steps, y: EGA}", seeds=1)).axes[0]
    assert drawn_lines(axes) == [[5, 0, 10, 0.4], [5, 0.1, 10, 0.3]]
    assert not axes.collections[0].get_paths()


def test_a_panel_without_a_curve_is_left_out(tmp_path):
    panels = "[{title: rules, where: {planner: cot}}, {title: both}]"
    plot = f"{{kind: curves, x: steps, y: EGA, panels: {panels}}}"
    assert [axes.get_title() for axes in draw(curves_report(tmp_path, plot)).axes] == ["both"]


@pytest.mark.parametrize(("panels", "shape"), [(4, (1, 4)), (5, (2, 3))])
def test_many_panels_stand_in_rows(tmp_path, panels, shape):
    titles = ", ".join(f"{{title: p{number}}}" for number in range(panels))
    measured = curves_report(tmp_path, f"{{kind: curves, x: s, y: e, panels: [{titles}]}}")
    axes = draw(measured).axes
    assert len(axes) == panels
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == shape


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        ("{kind: bars}", "the x of column 'late' is for a plot of the kind curves"),
        ("{kind: curves, x: s}", "plot: curves need x and y"),
        ("{kind: curves, x: s, y: e, size: seed}", "plot: curves take a colour and no other marks"),
        ("{kind: curves, x: s, y: e, panels: []}", "plot.panels: "),
        (
            "{kind: curves, x: s, y: e, panels: [{columns: [calls]}]}",
            "plot: no column 'calls' has an x; known: early, late",
        ),
        (
            "{kind: curves, x: s, y: e, panels: [{column: [late]}]}",
            "plot.panels.0.column: unknown key; did you mean columns",
        ),
        ("{kind: points, x: late, y: early, panels: [{}]}", "plot: panels are for curves"),
    ],
)
def test_curves_that_cannot_be_drawn(tmp_path, plot, message):
    with pytest.raises(PublishedError, match=re.escape(message)):
        curves_report(tmp_path, plot)


def test_an_x_that_nothing_is_measured_at(tmp_path):
    cited = (
        "title: t\ncolumns: [{key: a, label: A, cited: c, x: 1}]\nrows: [{label: r, where: {}}]\n"
    )
    with pytest.raises(PublishedError, match=r"columns\.0: x is for curves"):
        curves_report(tmp_path, "{kind: curves, x: s, y: e}", table=cited)


HEAT = """
title: t
plot: {kind: heat}
columns:
  - {key: cook, label: cook, where: {task: cook-meat}, measure: {rate: success}, as: percent}
  - {key: milk, label: milk, where: {task: milk-a-cow}, measure: {rate: success}, as: percent}
rows:
  - {label: A, where: {planner: too}}
  - {label: B, where: {planner: tot-mcts}}
  - {label: C, where: {planner: cot}}
senseless:
  - {rows: [C], columns: [milk], why: It never milks.}
"""


def test_a_heat_map_has_a_cell_for_each_row_and_column(tmp_path):
    results = [
        result_of(trial_of("too", task="cook-meat", seed=0), success=True),
        result_of(trial_of("too", task="cook-meat", seed=1), success=False),
        result_of(trial_of("tot-mcts", task="milk-a-cow", seed=0), success=True),
    ]
    axes = draw(report_of(tmp_path, HEAT, results)).axes[0]
    shares = axes.images[0].get_array().filled(-1.0).tolist()
    assert shares == [[0.5, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    assert {text.get_position(): text.get_text() for text in axes.texts} == {
        (0, 0): "50%",
        (1, 0): "not run",
        (0, 1): "not run",
        (1, 1): "100%",
        (0, 2): "not run",
        (1, 2): "×",
    }
    # Only the cell that no run can fill is grey.
    assert [patch.get_xy() for patch in axes.patches] == [(0.5, 1.5)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B", "C"]


def test_a_table_tells_what_was_not_run_from_what_makes_no_sense(tmp_path):
    ran = result_of(trial_of("too", task="cook-meat", seed=0), success=True)
    lines = {line.label: text_line(line) for line in report_of(tmp_path, HEAT, [ran]).lines}
    # Of each column the paper's figure comes first, which there is none of.
    assert lines["C"][2:] == ["–", "–", "–", "×"]
    assert lines["B"][2:] == ["–", "–", "–", "–"]
    assert lines["A"][5] == "– (0 runs)"


def test_a_senseless_cell_that_has_runs_is_measured(tmp_path):
    ran = result_of(trial_of("cot", task="milk-a-cow", seed=0), success=True)
    cell = report_of(tmp_path, HEAT, [ran]).lines[2].cell("milk")
    assert cell.senseless is None
    assert cell.measured.estimate.value == 1.0


def test_a_heat_map_of_nothing(tmp_path):
    with pytest.raises(PlotError, match="p t: nothing was measured"):
        draw(report_of(tmp_path, HEAT, [result_of(trial_of("too"), failed=True)]))


def test_a_heat_map_colours_shares_alone(tmp_path):
    file = HEAT.replace("rate: success}, as: percent", "mean: calls}")
    with pytest.raises(PublishedError, match="a heat map colours shares"):
        report_of(tmp_path, file, [])
