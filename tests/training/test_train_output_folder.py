"""A new folder takes its place whole, and the place of an artifact alone."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.train


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def write_letter(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear", encoding="utf-8")


def place_late(out: Path, *, force: bool) -> None:
    """Put a new folder where somebody else's came to be meanwhile."""
    from router.training.output_folder import check_output, placed_whole

    check_output(out, force=force)
    with placed_whole(out, force=force):
        write_letter(out)


@pytest.mark.parametrize("force", [False, True])
def test_what_came_to_be_there_meanwhile_is_kept(tmp_path: Path, *, force: bool) -> None:
    from router.training.output_folder import OutputRefused

    out = tmp_path / "out"
    with pytest.raises(OutputRefused, match="exists"):
        place_late(out, force=force)
    assert left(tmp_path) == {"out"}
    assert left(out) == {"letter.txt"}


def test_an_interrupted_replacement_keeps_the_earlier_artifact(tmp_path: Path) -> None:
    from router.training.output_folder import placed_whole

    out = tmp_path / "out"
    out.mkdir()
    (out / "SHA256SUMS").write_text("", encoding="utf-8")
    with pytest.raises(FileNotFoundError), placed_whole(out, force=True) as (_, filled):
        filled.rmdir()
    assert left(tmp_path) == {"out"}
    assert (out / "SHA256SUMS").exists()


def test_a_place_that_no_file_system_holds_is_refused(tmp_path: Path) -> None:
    from router.training.output_folder import OutputRefused, check_output, placed_whole

    with pytest.raises(OutputRefused, match="cannot be"):
        check_output(tmp_path / ("x" * 300), force=False)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(OutputRefused, match="cannot be written"),
        placed_whole(tmp_path / "file" / "out", force=False),
    ):
        pass


def test_a_link_to_an_artifact_is_not_replaced(tmp_path: Path) -> None:
    from router.training.output_folder import OutputRefused, check_output

    real = tmp_path / "real"
    real.mkdir()
    (real / "SHA256SUMS").write_text("", encoding="utf-8")
    check_output(real, force=True)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(OutputRefused, match="is no artifact folder"):
        check_output(tmp_path / "link", force=True)
