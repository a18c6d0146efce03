"""What was checked once is believed for exactly that, and for nothing else."""

import errno
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from logherd.settings.__main__ import main
from logherd.settings.aside import CheckAside
from logherd.settings.errors import SettingsError
from logherd.settings.kept import keep_checked, recall_checked
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({"brokerGroup": "bg", "dataDir": str(tmp_path / "data")}))
    return path


@pytest.fixture
def keep(config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    def run() -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([["broker", str(config)]])))
        return main(["--keep"])

    return run


def test_a_kept_check_gives_the_same_options_without_a_process(
    config: Path, keep: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recall_checked("broker", config, ()) is None
    assert keep() == 0
    monkeypatch.setattr("sys.executable", "/nothing/here")
    assert CheckAside("broker", config).result(BrokerOptions) == load_broker_options(config, ())
    assert CheckAside("broker", config).values()["broker_group"] == "bg"


def test_nothing_else_than_what_was_checked_is_believed(
    config: Path, keep: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep()
    assert recall_checked("broker", config, ()) is not None
    assert recall_checked("controller", config, ()) is None
    assert recall_checked("broker", config, ("flush=async",)) is None
    monkeypatch.chdir(tmp_path / "..")
    assert recall_checked("broker", config, ()) is None
    monkeypatch.undo()
    config.write_text(config.read_text().replace("bg", "gb"))
    assert recall_checked("broker", config, ()) is None
    assert CheckAside("broker", config).result(BrokerOptions).broker_group == "gb"


@pytest.mark.parametrize("text", ["", "[]", '{"of": 1}'])
def test_what_is_kept_and_cannot_be_understood_is_checked_again(
    config: Path, keep: Callable[[], int], text: str
) -> None:
    keep()
    config.with_name("broker.json.checked").write_text(text)
    assert CheckAside("broker", config).result(BrokerOptions).broker_group == "bg"


def test_options_of_another_shape_are_checked_again(config: Path, keep: Callable[[], int]) -> None:
    keep()
    kept = config.with_name("broker.json.checked")
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "options": {"other": 1}}))
    assert CheckAside("broker", config).result(BrokerOptions).broker_group == "bg"


def test_a_wrong_file_is_not_kept(config: Path, keep: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(json.dumps({"brokerGroup": "bg", "dataDir": "d", "flush": "never"}))
    assert keep() == 2
    assert "flush" in capsys.readouterr().err
    assert recall_checked("broker", config, ()) is None
    with pytest.raises(SettingsError, match="flush"):
        CheckAside("broker", config).result(BrokerOptions)


def test_what_could_not_be_kept_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, text: str) -> int:
        with path.open("w") as file:
            file.write(text[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "broker.yaml"
    file.write_text("brokerGroup: a\n")
    monkeypatch.setattr(Path, "write_text", fill)
    keep_checked("broker", file, (), "brokerGroup: a\n", {})
    assert list(tmp_path.iterdir()) == [file]
