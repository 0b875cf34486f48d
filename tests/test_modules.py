"""docs/MODULES.md has one line for each module, as its docstring says it now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import module_map
from tools.module_map import BEGIN, END, PAGE, NoDocstringError, render, summary, written

EMPTY = f"# Modules\n\n{BEGIN}\n{END}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "part/inner").mkdir(parents=True)
    (tmp_path / "part/__init__.py").write_text("")
    (tmp_path / "part/inner/__init__.py").write_text('"""What is inside."""\n')
    (tmp_path / "part/inner/a.py").write_text('"""Decides a.\n\nAnd more."""\n')
    return tmp_path


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "docs/MODULES.md is out of date: run make modules"


def test_a_package_comes_before_its_modules_and_an_empty_one_not_at_all(tree: Path) -> None:
    assert render(tree, ("part",)) == (
        "\n## part\n\n- `part/inner/__init__.py`: What is inside.\n- `part/inner/a.py`: Decides a.\n\n"
    )


@pytest.mark.parametrize("change", ["a new sentence", "a new module", "a module less", "a module moved"])
def test_a_stale_line_is_found(tree: Path, change: str) -> None:
    page = written(EMPTY, tree, ("part",))
    module = tree / "part/inner/a.py"
    if change == "a new sentence":
        module.write_text('"""Decides b."""\n')
    elif change == "a new module":
        (tree / "part/b.py").write_text('"""Decides b."""\n')
    elif change == "a module less":
        module.unlink()
    else:
        module.rename(tree / "part/a.py")
    again = written(page, tree, ("part",))
    assert again != page
    assert written(again, tree, ("part",)) == again


def test_the_check_names_the_command_that_mends_the_page(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, here = tmp_path / "MODULES.md", (tree, ("part",))
    page.write_text(written(EMPTY, *here).replace("`part/inner/a.py`", "`part/nowhere.py`"))
    assert module_map.main("check", page, *here) == 1
    assert "run make modules" in capsys.readouterr().err
    assert module_map.main("write", page, *here) == 0
    assert module_map.main("check", page, *here) == 0


def test_a_module_without_a_docstring_is_refused_by_name(tree: Path) -> None:
    (tree / "part/b.py").write_text("x = 1\n")
    with pytest.raises(NoDocstringError, match=r"part/b\.py"):
        render(tree, ("part",))


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("One. Two.", "One."),
        ("One line\nand another. Two.", "One line and another."),
        ("Of a.b, e.g. Two, of `x.y`. Three.", "Of a.b, e.g. Two, of `x.y`."),
        ("No stop\n\nNext.", "No stop"),
    ],
)
def test_the_first_sentence_ends_where_the_next_one_begins(docstring: str, sentence: str) -> None:
    assert summary(f'"""{docstring}"""\n') == sentence


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(SystemExit):
        written("# Modules\n")
