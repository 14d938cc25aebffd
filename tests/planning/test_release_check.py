"""The check of a release: archives from the real project, and the wheel's commands elsewhere."""

import importlib.util
import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from command_line import invoke

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check():
    path = ROOT / "scripts" / "release_check.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


def test_a_file_too_many_or_too_few_is_named(check, tmp_path):
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some.dist-info/licenses/LICENSE", "text")
        archive.writestr("llm_planning/a.py", "")
    check.check_wheel(wheel, {"llm_planning/a.py", "README.md"})
    with pytest.raises(check.ReleaseError, match=r"lacks llm_planning/configs/b\.yaml"):
        check.check_wheel(wheel, {"llm_planning/a.py", "configs/b.yaml"})
    with pytest.raises(
        check.ReleaseError, match=r"has llm_planning/a\.py, which git does not know"
    ):
        check.check_wheel(wheel, set())
    source = tmp_path / "some.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(wheel, "some-1/README.md")
        archive.add(wheel, "some-1/answers.sqlite")
    with pytest.raises(check.ReleaseError, match=r"lacks PKG-INFO\n.*has answers.sqlite"):
        check.check_source(source, {"README.md"})


def test_the_command_that_a_new_user_tries_first_is_run_as_it_is_written(check):
    literal = ("run", "xenon", "--model", "none")
    (command,) = (command for command in check.COMMANDS if command.arguments == literal)
    ended = invoke(*command.arguments)
    assert ended.exit_code in command.codes, ended.output
    assert re.search(command.says, ended.stdout)
    few = re.sub(r"\d+ of 67 goals are obtained", "9 of 67 goals are obtained", ended.stdout)
    assert not re.search(command.says, few)


@pytest.mark.slow
def test_the_archives_are_whole_and_the_wheel_works_elsewhere(check, tmp_path):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a checkout of git")
    folder, home = tmp_path / "made", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    source, wheel = check.build(folder)
    files = check.tracked()
    check.check_source(source, files)
    check.check_wheel(wheel, files)
    # The dependencies are those of this Python; the project itself comes from the wheel alone.
    python = check.empty_environment(tmp_path / "clean")
    check._run([str(python), "-m", "pip", "install", "-q", "--no-deps", str(wheel)], cwd=folder)
    (site,) = (tmp_path / "clean").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    where = check._run(
        [str(python), "-c", "import llm_planning; print(llm_planning.__file__)"], cwd=home
    )
    assert where.startswith(str(site))
    lines = check.check_commands(python, home)
    assert len(lines) == len(check.COMMANDS)
    assert sum(line.startswith("works: ") for line in lines) >= len(check.COMMANDS)
