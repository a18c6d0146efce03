"""The folder that `dataDir` names, made or told apart from what is none."""

from pathlib import Path

from logherd.kit.errors import LogHerdError

__all__ = ["NoDataDir", "make_data_dir"]


class NoDataDir(LogHerdError):
    """There is no folder at `dataDir`, and none can be made."""


def make_data_dir(data_dir: str) -> Path:
    """The folder, which is made with those above it if need be. Blocks. Raises: NoDataDir."""
    path = Path(data_dir)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NoDataDir(
            f"dataDir: {data_dir} is not right: it, or what is above it, is no folder; name one, or where to make one"
        ) from error
    except OSError as error:
        raise NoDataDir(
            f"dataDir: {data_dir} is not right: it cannot be made: {error.strerror}; name another, or let it be made"
        ) from error
    return path
