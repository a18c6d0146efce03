"""What this replica gives to others that mend damage: pieces of what is committed here, as they lie in the files."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from logherd.app.clock import boot_ms
from logherd.app.group.damages import Damages
from logherd.app.group.mode import Mode
from logherd.model.names import Epoch, Position
from logherd.peers.pieces import Asked, Given, encode_piece
from logherd.replication.epochs import EpochHistory
from logherd.store import MessageStore, StoreDamaged
from logherd.store.files import Files
from logherd.store.pieces import Kept, Piece, PieceState, read_piece
from logherd.telemetry.log import Log

__all__ = ["PIECE_BYTES", "Giving"]

_log = Log("logherd.group")

PIECE_BYTES = 256 << 10
"""At once, so that nobody else who asks waits long."""


class Giving:
    """Loop thread only."""

    def __init__(
        self, files: Files, root: str, store: MessageStore, mode: Mode, *, epochs: Callable[[], EpochHistory]
    ) -> None:  # fmt: skip
        """`epochs`: of the log as it is by now."""
        self._files = files
        self._root = root
        self._store = store
        self._mode = mode
        self._epochs = epochs
        self.damages = Damages(files, root, mode)
        self._logged: set[tuple[str, int]] = set()

    async def give(self, asked: Asked) -> tuple[bytes, bytes] | None:
        """Head and data of the answer; None if it is none of ours, or cannot be read. A thread reads: whoever asks may
        ask for what is not cached, and what is compared with it may be as long as a record."""
        machine, store, ask = self._mode.machine, self._store, asked.ask
        if asked.cluster != machine.cluster.name:
            return None
        kept = Kept(store.min_position, store.committed_position, store.flushed_position)
        try:
            piece = await asyncio.to_thread(read_piece, self._files, self._root, ask, kept, bytes_max=PIECE_BYTES)
        except (StoreDamaged, OSError) as error:
            _log.warning("a piece of the log cannot be read", for_broker=asked.broker, position=ask.start, reason=error)
            return None
        if piece.at is not None and piece.at >= store.min_position:  # not deleted meanwhile
            self.damages.found(store.damaged(piece.at, f"met when broker {asked.broker} asked for it"))
        if piece.state is PieceState.WHOLE and (asked.broker, ask.end) not in self._logged:
            self._logged = {(asked.broker, ask.end)}
            _log.info("gives what another replica lacks", broker=asked.broker, position=ask.start, to_position=ask.end)
        return encode_piece(self._told(asked, piece)), piece.data

    def _told(self, asked: Asked, piece: Piece) -> Given:
        """What comes before the bytes."""
        roster, ruled = self._mode.roster, self._mode.rules(boot_ms())
        given = Given(
            state=piece.state, end=piece.end, leads=ruled is not None,
            knows=roster.brokers if roster is not None else None,
        )  # fmt: skip
        if piece.state is PieceState.GONE:
            base = self._epochs().base
            return replace(given, start=base.position, epoch=base.epoch)
        if piece.state is not PieceState.NOT_YET:
            return given
        if ruled is not None and self._lacks(asked, ruled):
            return replace(given, state=PieceState.DIFFERS)
        return replace(given, log_end=self._store.end_position)

    def _lacks(self, asked: Asked, ruled: Epoch) -> bool:
        """Whether this log, of the leader of epoch `ruled`, surely lacks what was committed in the asker's: that was so
        in an epoch before, and whatever is here of such epochs ends before it. An operator has accepted that loss. A
        replica that runs hears it in the same way, by epochs, and need not wait either until this leader commits: it
        may not before somebody follows."""
        if asked.epoch is None or asked.epoch >= ruled:
            return False
        return asked.ask.end > self._epochs().end_of(Epoch(asked.epoch), Position(self._store.end_position))
